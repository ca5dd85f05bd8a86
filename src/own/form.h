// The forms in which a user's gemm is found, and how it is called. Included behind his file, or
// before it where nvcc compiles it.
//
//   void gemm(int M, int N, int K, float alpha, const T* A, int lda, const T* B, int ldb,
//             float beta, TC* C, int ldc, cudaStream_t stream)
//
// with T float, half or bfloat16 and TC T or float; without alpha and beta, without lda, ldb and ldc,
// or without the stream. Arguments may be wider integers, and the result a cudaError_t.
#pragma once

#include <tuple>
#include <type_traits>
#include <vector>

#ifdef __CUDACC__
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#else
#include "own/cuda.h"
#endif

#include "gemm_types.h"
#include "own/forms.h"

namespace gemm::own {

#ifdef __CUDACC__
// Makes what is launched on the default stream while it lives a part of the call's stream: after what
// stands there, and before what follows.
class OnDefaultStream {
 public:
  explicit OnDefaultStream(cudaStream_t stream) : stream_(stream) {
    if (event_ == nullptr) cudaEventCreateWithFlags(&event_, cudaEventDisableTiming);
    cudaEventRecord(event_, stream_);
    cudaStreamWaitEvent(nullptr, event_, 0);
  }
  ~OnDefaultStream() {
    cudaEventRecord(event_, nullptr);
    cudaStreamWaitEvent(stream_, event_, 0);
  }
  OnDefaultStream(const OnDefaultStream&) = delete;

 private:
  static inline thread_local cudaEvent_t event_ = nullptr;
  cudaStream_t stream_;
};
#else
struct OnDefaultStream {
  explicit OnDefaultStream(cudaStream_t) {}  // what is launched has run on return
};
#endif

struct NoMatrix;  // a gemm that takes a pointer to it takes any

template <class T, class TC, bool LD, bool SCALARS, bool STREAM>
auto arguments(const GemmCall& c) {
  const auto if_true = []<bool WANTED>(auto x, std::bool_constant<WANTED>) {
    if constexpr (WANTED)
      return std::tuple(x);
    else
      return std::tuple();
  };
  constexpr std::bool_constant<LD> ld;
  constexpr std::bool_constant<SCALARS> scalars;
  return std::tuple_cat(std::tuple(c.M, c.N, c.K), if_true(c.epilogue.alpha, scalars),
                        std::tuple(static_cast<T*>(const_cast<void*>(c.A))),
                        if_true(static_cast<int>(c.lda), ld),
                        std::tuple(static_cast<T*>(const_cast<void*>(c.B))),
                        if_true(static_cast<int>(c.ldb), ld), if_true(c.epilogue.beta, scalars),
                        std::tuple(static_cast<TC*>(c.C)), if_true(static_cast<int>(c.ldc), ld),
                        if_true(static_cast<cudaStream_t>(c.stream), std::bool_constant<STREAM>()));
}

// `f` is a function object, so that a missing overload is no error: [](auto... a) -> decltype(gemm(a...)).
template <class T, class TC, bool LD, bool SCALARS, bool STREAM, class F>
void add_form(std::vector<Form>& forms, DType dtype, F f) {
  using Arguments = decltype(arguments<T, TC, LD, SCALARS, STREAM>(GemmCall()));
  using Others = decltype(arguments<NoMatrix, TC, LD, SCALARS, STREAM>(GemmCall()));
  constexpr auto takes = []<class... A>(std::tuple<A...>*) { return std::is_invocable_v<F, A...>; };
  if constexpr (takes(static_cast<Arguments*>(nullptr)) && !takes(static_cast<Others*>(nullptr)))
    forms.push_back({dtype, LD, SCALARS, STREAM, [](const GemmCall& c) -> int {
                       const auto call = [](auto... a) {
                         if constexpr (std::is_void_v<decltype(F()(a...))>)
                           return F()(a...), 0;
                         else
                           return static_cast<int>(F()(a...));
                       };
                       const auto its = arguments<T, TC, LD, SCALARS, STREAM>(c);
                       int status = 0;
                       if constexpr (STREAM) {
                         status = std::apply(call, its);
                       } else {
                         const OnDefaultStream ordered(static_cast<cudaStream_t>(c.stream));
                         status = std::apply(call, its);
                       }
                       // A launch that was refused, too, whose error nobody has asked for.
                       const int last = static_cast<int>(cudaGetLastError());
                       return status != 0 ? status : last;
                     }});
}

// The fullest form of one choice of types, if there is one.
template <class T, class TC, class F>
void add_forms(std::vector<Form>& all, DType dtype, F f) {
  std::vector<Form> forms;
  add_form<T, TC, true, true, true>(forms, dtype, f);
  add_form<T, TC, true, true, false>(forms, dtype, f);
  add_form<T, TC, false, true, true>(forms, dtype, f);
  add_form<T, TC, false, true, false>(forms, dtype, f);
  add_form<T, TC, true, false, true>(forms, dtype, f);
  add_form<T, TC, true, false, false>(forms, dtype, f);
  add_form<T, TC, false, false, true>(forms, dtype, f);
  add_form<T, TC, false, false, false>(forms, dtype, f);
  if (!forms.empty()) all.push_back(forms.front());
}

// The first type with these elements of A and B, and of C.
constexpr DType dtype_with(Element in, Element out) {
  for (const DType d : ALL_DTYPES)
    if (info(d).in == in && info(d).out == out) return d;
  return DType::f32;
}

template <class F>
std::vector<Form> forms_of(F f) {
  using enum Element;
  std::vector<Form> all;
  add_forms<float, float>(all, dtype_with(f32, f32), f);
  add_forms<__half, __half>(all, dtype_with(f16, f16), f);
  add_forms<__half, float>(all, dtype_with(f16, f32), f);
  add_forms<__nv_bfloat16, __nv_bfloat16>(all, dtype_with(bf16, bf16), f);
  add_forms<__nv_bfloat16, float>(all, dtype_with(bf16, f32), f);
  return all;
}

}  // namespace gemm::own

// The one symbol of the library: writes the file's forms. `f` is its gemm.
#define GEMM_OWN_LIBRARY(f)                                                                   \
  extern "C" __attribute__((visibility("default"))) void gemm_ladder_own_forms(               \
      std::vector<gemm::own::Form>* forms) {                                                  \
    *forms = gemm::own::forms_of([](auto... a) -> decltype(::f(a...)) { return ::f(a...); }); \
  }
