// One GEMM with typed pointers, as kernels take it.
#pragma once

#include <type_traits>

#include "device/platform.h"
#include "gemm_types.h"

GEMM_BUILD_NAMESPACE_BEGIN

// What calls of 8-bit elements have besides. Of others an empty base: nothing is passed.
struct WithBlockScales {
  BlockScales scales;
};
struct WithoutBlockScales {};
template <class T>
using BlockScalesOf = std::conditional_t<sizeof(T) == 1, WithBlockScales, WithoutBlockScales>;

// Passed to kernels by value. Shapes and units as in GemmCall; A, B and C may differ in type. A rung
// may rely on this:
//   alpha == 0 arrives as K == 0 (so A and B are never read), and M, N, K <= 2^31 - 1 - 1024 (so a
//   tile's end fits in an int).
template <class TA, class TB = TA, class TC = TA>
struct GemmArgs : BlockScalesOf<TA> {
  using TypeA = TA;
  using TypeC = TC;
  static constexpr bool FUSED = false, GATED = false;
  int M, N, K;
  const TA* A;
  int64_t lda;
  const TB* B;
  int64_t ldb;
  TC* C;
  int64_t ldc;
  Epilogue epilogue;
  Op op_a, op_b;
  Batch batch = {};  // of one product, unless the rung's Needs say that its kernel takes batches
};

// GemmArgs with the whole epilogue, of one product: as fused kernels take it, and planners.
template <class TA, class TB = TA, class TC = TA>
struct FusedArgs : GemmArgs<TA, TB, TC> {
  static constexpr bool FUSED = true;
  FusedEpilogue fused;
  bool invariant = false;  // GemmCall::invariant: for planners
};

// FusedArgs where D is gated (FusedEpilogue::gated), and so half as wide as the product.
template <class TA, class TB = TA, class TC = TA>
struct GatedArgs : FusedArgs<TA, TB, TC> {
  static constexpr bool GATED = true;
};

// The arguments with D's columns in place of the product's.
template <class... T>
GEMM_INLINE_ANYWHERE const GemmArgs<T...>& with_columns_of_d(const GemmArgs<T...>& p) {
  return p;
}
template <class... T>
GEMM_INLINE_ANYWHERE GemmArgs<T...> with_columns_of_d(const GatedArgs<T...>& p) {
  GemmArgs<T...> d = p;
  d.N /= 2;
  return d;
}

// One product of a batch.
template <class TA, class TB, class TC>
GEMM_INLINE_ANYWHERE GemmArgs<TA, TB, TC> product_of(GemmArgs<TA, TB, TC> p, int64_t index) {
  p.A += index * p.batch.stride_a;
  p.B += index * p.batch.stride_b;
  p.C += index * p.batch.stride_c;
  if constexpr (sizeof(TA) == 1) p.scales = p.scales.of_product(index);
  p.batch = {};
  return p;
}

// One group of a batch's (Batch::ends): its rows, from `first` to before `end`, as one product.
template <class TA, class TB, class TC>
GemmArgs<TA, TB, TC> group_of(GemmArgs<TA, TB, TC> p, int64_t index, int64_t first, int end) {
  p.A += p.op_a == Op::N ? first * p.lda : first;
  p.B += index * p.batch.stride_b;
  p.C += first * p.ldc;
  p.M = static_cast<int>(end - first);
  p.batch = {};
  return p;
}

// The call with its types, and the call of a GEMM without.
template <class TA, class TB = TA, class TC = TA>
GemmArgs<TA, TB, TC> typed(const GemmCall& c) {
  GemmArgs<TA, TB, TC> p{{},
                         c.M,
                         c.N,
                         c.epilogue.alpha == 0 ? 0 : c.K,
                         static_cast<const TA*>(c.A),
                         c.lda,
                         static_cast<const TB*>(c.B),
                         c.ldb,
                         static_cast<TC*>(c.C),
                         c.ldc,
                         c.epilogue.plain(),
                         c.op_a,
                         c.op_b,
                         c.batch};
  if constexpr (sizeof(TA) == 1) p.scales = c.scales;
  return p;
}
template <class TA, class TB = TA, class TC = TA>
FusedArgs<TA, TB, TC> fused(const GemmCall& c) {
  return {typed<TA, TB, TC>(c), c.epilogue, c.invariant};
}
template <class TA, class TB = TA, class TC = TA>
GatedArgs<TA, TB, TC> gated(const GemmCall& c) {
  return {fused<TA, TB, TC>(c)};
}
GEMM_BUILD_NAMESPACE_END
