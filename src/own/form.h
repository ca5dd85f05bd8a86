// The forms in which a user's gemm is found, and how it is called. Included behind his file, or
// before it where nvcc compiles it.
//
//   void gemm(int M, int N, int K, float alpha, const T* A, int lda, const T* B, int ldb,
//             float beta, TC* C, int ldc, cudaStream_t stream)
//
// with T float, half or bfloat16 and TC T or float; without alpha and beta, without lda, ldb and ldc,
// or without the stream. Arguments may be wider integers, and the result a cudaError_t.
#pragma once

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

// What visit() returns for the arguments of one form, in their order; `stream` is one or none.
template <class T, class TC, bool LD, bool SCALARS, class Visit, class... Stream>
auto with_arguments(const GemmCall& c, Visit visit, Stream... stream) {
  T* const A = static_cast<T*>(const_cast<void*>(c.A));
  T* const B = static_cast<T*>(const_cast<void*>(c.B));
  TC* const C = static_cast<TC*>(c.C);
  const int lda = static_cast<int>(c.lda), ldb = static_cast<int>(c.ldb);
  const int ldc = static_cast<int>(c.ldc);
  const float alpha = c.epilogue.alpha, beta = c.epilogue.beta;
  if constexpr (LD && SCALARS)
    return visit(c.M, c.N, c.K, alpha, A, lda, B, ldb, beta, C, ldc, stream...);
  else if constexpr (SCALARS)
    return visit(c.M, c.N, c.K, alpha, A, B, beta, C, stream...);
  else if constexpr (LD)
    return visit(c.M, c.N, c.K, A, lda, B, ldb, C, ldc, stream...);
  else
    return visit(c.M, c.N, c.K, A, B, C, stream...);
}

// Whether F takes the arguments of that form.
template <class F, class T, class TC, bool LD, bool SCALARS, class... Stream>
constexpr bool takes() {
  constexpr auto visit = []<class... A>(A...) {
    return std::bool_constant<std::is_invocable_v<F, A...>>();
  };
  return decltype(with_arguments<T, TC, LD, SCALARS>(GemmCall(), visit, Stream()...))::value;
}

template <class F, class T, class TC, bool LD, bool SCALARS, class... Stream>
int call(const GemmCall& c) {
  const auto visit = [](auto... a) {
    if constexpr (std::is_void_v<decltype(F()(a...))>)
      return F()(a...), 0;
    else
      return static_cast<int>(F()(a...));
  };
  const auto stream = static_cast<cudaStream_t>(c.stream);
  int status = 0;
  if constexpr (sizeof...(Stream) == 1) {
    status = with_arguments<T, TC, LD, SCALARS>(c, visit, stream);
  } else {
    const OnDefaultStream ordered(stream);
    status = with_arguments<T, TC, LD, SCALARS>(c, visit);
  }
  // A launch that was refused, too, whose error nobody has asked for.
  const int last = static_cast<int>(cudaGetLastError());
  return status != 0 ? status : last;
}

// Adds the fullest form of one choice of types, if there is one; forms are tried from FORM on.
// F is a function object, so that a missing overload is no error: [](auto... a) -> decltype(gemm(a...)).
template <class T, class TC, class F, int FORM = 0>
void add_form(std::vector<Form>& forms, DType dtype) {
  constexpr bool LD = FORM / 2 % 2 == 0, SCALARS = FORM / 4 == 0, STREAM = FORM % 2 == 0;
  const auto add = [&]<class... Stream>(Stream...) {
    if constexpr (takes<F, T, TC, LD, SCALARS, Stream...>() &&
                  !takes<F, NoMatrix, TC, LD, SCALARS, Stream...>())
      forms.push_back({dtype, LD, SCALARS, STREAM, call<F, T, TC, LD, SCALARS, Stream...>});
    else if constexpr (FORM < 7)
      add_form<T, TC, F, FORM + 1>(forms, dtype);
  };
  if constexpr (STREAM)
    add(cudaStream_t());
  else
    add();
}

// The first type with these elements of A and B, and of C.
constexpr DType dtype_with(Element in, Element out) {
  for (const DType d : ALL_DTYPES)
    if (info(d).in == in && info(d).out == out) return d;
  return DType::f32;
}

template <class F>
std::vector<Form> forms_of(F) {
  using enum Element;
  std::vector<Form> all;
  add_form<float, float, F>(all, dtype_with(f32, f32));
  add_form<__half, __half, F>(all, dtype_with(f16, f16));
  add_form<__half, float, F>(all, dtype_with(f16, f32));
  add_form<__nv_bfloat16, __nv_bfloat16, F>(all, dtype_with(bf16, bf16));
  add_form<__nv_bfloat16, float, F>(all, dtype_with(bf16, f32));
  return all;
}

}  // namespace gemm::own

// The one symbol of the library: writes the file's forms. `f` is its gemm.
#define GEMM_OWN_LIBRARY(f)                                                                   \
  extern "C" __attribute__((visibility("default"))) void gemm_ladder_own_forms(               \
      std::vector<gemm::own::Form>* forms) {                                                  \
    *forms = gemm::own::forms_of([](auto... a) -> decltype(::f(a...)) { return ::f(a...); }); \
  }
