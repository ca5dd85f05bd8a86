// A and B where TMA can address them, and their majors as constants.
#pragma once

#include <type_traits>

#include "device/launch.h"
#include "device/major.h"
#include "device/repack.cuh"
#include "device/tma.h"
#include "device/with_constant.h"

GEMM_BUILD_NAMESPACE_BEGIN

// A and B as given or, where their rows do not lie at multiples of 16 bytes, copies. To live until
// the kernels that read them have been launched.
template <class T>
struct TmaOperands : RepackedPair<T> {
  template <class TC>
  TmaOperands(const GemmArgs<T, T, TC>& p, Stream stream)
      : RepackedPair<T>({p.A, p.op_a == Op::N ? p.M : p.K, p.op_a == Op::N ? p.K : p.M, p.lda},
                        {p.B, p.op_b == Op::N ? p.K : p.N, p.op_b == Op::N ? p.N : p.K, p.ldb},
                        stream) {}
};

// Calls f with both operands' majors as constants: f(a, b), a() and b() being the values.
template <class F, class... T>
void with_majors(const GemmArgs<T...>& p, F&& f) {
  constexpr std::integral_constant<Major, Major::K> K;
  constexpr std::integral_constant<Major, Major::MN> MN;
  if constexpr (IS_SAMPLE)
    f(K, MN);
  else if (p.op_a == Op::N)
    p.op_b == Op::N ? f(K, MN) : f(K, K);
  else
    p.op_b == Op::N ? f(MN, MN) : f(MN, K);
}

// Fused kernels take A by rows. Transposed it is in the gradients of weights, which have no epilogue
// but beta: other calls get an epilogue pass.
template <class... T>
bool has_rows_of_a(const GemmArgs<T...>& p) {
  return p.op_a == Op::N;
}
template <class F, class... T>
void with_majors(const FusedArgs<T...>& p, F&& f) {
  constexpr std::integral_constant<Major, Major::K> K;
  constexpr std::integral_constant<Major, Major::MN> MN;
  if constexpr (IS_SAMPLE)
    f(K, K);  // the other one than a plain kernel's
  else
    p.op_b == Op::N ? f(K, MN) : f(K, K);
}

GEMM_BUILD_NAMESPACE_END
