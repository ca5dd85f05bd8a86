// The whole epilogue in a Hopper kernel: scales, a residual, biases, activations and gates on a
// warpgroup's accumulators, in registers. Overloads of wgmma_epilogue.cuh for FusedArgs.
//
// A thread holds up to 192 accumulators of its 240 registers. So operands come a few at a time, and
// what makes them fast is where they come from: vectors from L1, where touch_vectors puts them before
// the main loop, and a residual from L2 (prefetch_c), 16 bytes at a time.
#pragma once

#include "device/ptx/ldmatrix.cuh"
#include "device/wgmma_epilogue.cuh"

GEMM_BUILD_NAMESPACE_BEGIN

// Fast functions of the special function unit. Errors: tanh 2^-11 of it, the others 2^-22.
GEMM_DEVICE float fast_tanh(float x) {
#if GEMM_ON_GPU
  float y;
  asm("tanh.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#else
  return std::tanh(x);
#endif
}
// 1 / (1 + 2^x)
GEMM_DEVICE float fast_logistic2(float x) {
#if GEMM_ON_GPU
  float power, y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(1 + power));
  return y;
#else
  return 1 / (1 + std::exp2(x));
#endif
}

constexpr float LOG2_E = 1.44269504f;
// x sigmoid(2 u). In bf16 one instruction of the special function unit: x / 2 (1 + tanh(u)), with an
// error of 2^-12 of x, where rounding to bf16 costs up to 2^-8 of the result.
template <class TC>
GEMM_DEVICE float times_logistic(float x, float u) {
  if constexpr (std::is_same_v<TC, bf16>) {
    const float half_x = 0.5f * x;
    return fmaf(half_x, fast_tanh(u), half_x);
  } else {
    return x * fast_logistic2(-2 * LOG2_E * u);
  }
}
template <class TC>
GEMM_DEVICE float fast_gelu(float x) {
  return times_logistic<TC>(x, x * fmaf(0.035677407f, x * x, 0.79788456f));
}
template <class TC>
GEMM_DEVICE float fast_silu(float x) {
  return times_logistic<TC>(x, 0.5f * x);
}
// x times the sigmoid of x P(x^2), P being a minimax polynomial: in single precision the error is 3
// units of 2^-24 of x.
GEMM_DEVICE float fast_gelu_erf(float x) {
  const float square = x * x;
  float sum = 3.51234264e-09f;
  sum = fmaf(sum, square, -2.64526704e-07f);
  sum = fmaf(sum, square, 7.92948958e-06f);
  sum = fmaf(sum, square, -0.000110612389f);
  sum = fmaf(sum, square, -6.51899463e-05f);
  sum = fmaf(sum, square, 0.0726661682f);
  sum = fmaf(sum, square, 1.59576988f);
  return x * fast_logistic2(-LOG2_E * (x * sum));
}

// One activation: by a fast function where it has one, else as everywhere (src/epilogue.h).
template <class TC, Activation NAME>
GEMM_DEVICE float activated(float x, float slope) {
  if constexpr (NAME == Activation::gelu) return fast_gelu<TC>(x);
  if constexpr (NAME == Activation::silu) return fast_silu<TC>(x);
  if constexpr (NAME == Activation::gelu_erf) return fast_gelu_erf(x);
#define ROW(name, steepest, roundings) \
  if constexpr (NAME == Activation::name) return activations::name(x, slope);
  GEMM_ACTIVATIONS(ROW)
#undef ROW
}

// The activation of every STEP-th of a thread's accumulators: one choice for every 16. Were it one for
// all, nvcc would interleave them all, and spill what waits.
template <class TC, int STEP = 1, int COUNT>
GEMM_DEVICE void activate_fused(const FusedEpilogue& epilogue, float (&x)[COUNT]) {
  constexpr int EACH = 16;
  static_assert(COUNT % EACH == 0);
  if (epilogue.activation == Activation::none) return;
#pragma unroll
  for (int first = 0; first < COUNT; first += EACH) {
    auto choice = static_cast<int32_t>(epilogue.activation);
#if GEMM_ON_GPU
    asm volatile("" : "+r"(choice));  // not known to be the same
#endif
    switch (static_cast<Activation>(choice)) {
#define ROW(name, steepest, roundings)                                        \
  case Activation::name:                                                      \
    _Pragma("unroll") for (int i = first; i < first + EACH; i += STEP) x[i] = \
        activated<TC, Activation::name>(x[i], epilogue.slope);                \
    break;
      GEMM_ACTIVATIONS(ROW)
#undef ROW
    }
  }
}

// Reads an element for nothing but to have its sector in L1.
template <class T>
GEMM_DEVICE void touch(const T* element) {
#if GEMM_ON_GPU
  if constexpr (sizeof(T) == 2) {
    uint16_t unused;
    asm volatile("ld.global.u16 %0, [%1];" : "=h"(unused) : "l"(element));
  } else {
    uint32_t unused;
    asm volatile("ld.global.u32 %0, [%1];" : "=r"(unused) : "l"(element));
  }
#else
  static_cast<void>(element);
#endif
}

// What the epilogue reads of vectors along the accumulators' columns, COLS of them from `first` on,
// into L1: by a warpgroup, before its main loop. TRANSPOSED: the accumulators' columns are C's rows.
// A plain kernel has none.
template <int COLS, bool TRANSPOSED = false, class... T>
GEMM_DEVICE void touch_vectors(const GemmArgs<T...>&, int) {}
template <int COLS, bool TRANSPOSED = false, class... T>
GEMM_DEVICE void touch_vectors(const FusedArgs<T...>& p, int first) {
  using TC = typename GemmArgs<T...>::TypeC;
  constexpr int STEP = 8;  // elements: a sector of 32 bytes holds 8 floats
  const FusedEpilogue& e = p.fused;
  const int i = first + threadIdx.x % 128 * STEP, end = TRANSPOSED ? p.M : p.N;
  const auto* const bias = static_cast<const TC*>(TRANSPOSED ? e.row_bias : e.bias);
  const float* const scale = TRANSPOSED ? e.scale_rows : e.scale_columns;
  if (threadIdx.x % 128 >= cdiv(COLS, STEP) || i >= end) return;
  if (bias != nullptr) touch(bias + i);
  if (scale != nullptr) touch(scale + i);
}

// Returns x, as a value that the compiler cannot know. So it computes nothing of it ahead of its
// use, in registers of the main loop.
template <class T>
GEMM_DEVICE T at_use(T x) {
#if GEMM_ON_GPU
  if constexpr (sizeof(T) == 8)
    asm volatile("" : "+l"(x));
  else
    asm volatile("" : "+r"(x));
#endif
  return x;
}

// Elements i and i + 1 of a vector that ends at `end`, 0 beyond: by one load if PAIRS.
template <bool PAIRS, class T>
GEMM_DEVICE void load_two(const T* vector, int i, int end, float& left, float& right) {
  left = right = 0;
  if constexpr (PAIRS) {
    if (i < end) unpack<T>(*reinterpret_cast<const Pair<T>*>(vector + i), left, right);
  } else {
    if (i < end) left = float(vector[i]);
    if (i + 1 < end) right = float(vector[i + 1]);
  }
}
// Reads the columns of COUNT accumulators, from column `first` on, and calls apply(i, left, right):
// i is the first of the four accumulators in two columns.
template <int COUNT, class T, class Apply>
GEMM_DEVICE void for_each_two(const T* from, int first, int end, Apply&& apply) {
  const T* const vector = at_use(from);
  const int column = at_use(first);
  const auto all = [&](auto pairs) {
#pragma unroll
    for (int i = 0; i < COUNT; i += 4) {
      float left, right;
      load_two<decltype(pairs)::value>(vector, column + i * 2, end, left, right);
      apply(i, left, right);
#if GEMM_ON_GPU
      // 8 loads at once, or 4 beside many accumulators: more take registers.
      constexpr int AT_ONCE = COUNT > 64 ? 16 : 32;
      if (i % AT_ONCE == AT_ONCE - 4) asm volatile("" ::: "memory");
#endif
    }
  };
  const bool pairs = reinterpret_cast<uintptr_t>(vector) % (2 * sizeof(T)) == 0 && end % 2 == 0;
  pairs ? all(std::true_type{}) : all(std::false_type{});
}

// alpha and scales on a thread's accumulators, the first of which is at (row, column).
template <bool TRANSPOSED, int COUNT, class... T>
GEMM_DEVICE void scale_accumulators(const FusedArgs<T...>& p, int row, int column,
                                    float (&acc)[COUNT]) {
  const FusedEpilogue& e = p.fused;
  const int rows = TRANSPOSED ? p.N : p.M, columns = TRANSPOSED ? p.M : p.N;
  const float* const row_scale = TRANSPOSED ? e.scale_columns : e.scale_rows;
  const float* const scale = TRANSPOSED ? e.scale_rows : e.scale_columns;
  float factors[2] = {e.alpha, e.alpha};
  if (row_scale != nullptr)
#pragma unroll
    for (int h = 0; h < 2; ++h)
      if (row + h * 8 < rows) factors[h] *= row_scale[row + h * 8];
  if (row_scale != nullptr || e.alpha != 1)
#pragma unroll
    for (int i = 0; i < COUNT; ++i) acc[i] *= factors[i / 2 % 2];
  if (scale != nullptr)
    for_each_two<COUNT>(scale, column, columns, [&](int i, float left, float right) {
      acc[i] *= left;
      acc[i + 1] *= right;
      acc[i + 2] *= left;
      acc[i + 3] *= right;
    });
}

// Biases, likewise.
template <bool TRANSPOSED, int COUNT, class... T>
GEMM_DEVICE void add_biases(const FusedArgs<T...>& p, int row, int column, float (&acc)[COUNT]) {
  using TC = typename GemmArgs<T...>::TypeC;
  const FusedEpilogue& e = p.fused;
  const int rows = TRANSPOSED ? p.N : p.M, columns = TRANSPOSED ? p.M : p.N;
  const auto* const row_bias = static_cast<const TC*>(TRANSPOSED ? e.bias : e.row_bias);
  const auto* const bias = static_cast<const TC*>(TRANSPOSED ? e.row_bias : e.bias);
  if (row_bias != nullptr) {
    float terms[2] = {};
#pragma unroll
    for (int h = 0; h < 2; ++h)
      if (row + h * 8 < rows) terms[h] = float(row_bias[row + h * 8]);
#pragma unroll
    for (int i = 0; i < COUNT; ++i) acc[i] += terms[i / 2 % 2];
  }
  if (bias != nullptr)
    for_each_two<COUNT>(bias, column, columns, [&](int i, float left, float right) {
      acc[i] += left;
      acc[i + 1] += right;
      acc[i + 2] += left;
      acc[i + 3] += right;
    });
}

// The arguments with C where the epilogue reads it: D's memory, or the residual.
template <class... T>
GEMM_DEVICE GemmArgs<T...> with_old_c(const FusedArgs<T...>& p) {
  using TC = typename GemmArgs<T...>::TypeC;
  GemmArgs<T...> old = p;
  if (const void* const c = at_use(p.fused.c); c != nullptr) {
    old.C = static_cast<TC*>(const_cast<void*>(c));
    old.ldc = p.fused.ldc;
  }
  return old;
}
// Whether the rows of that begin at multiples of 16 bytes.
template <class TA, class TB, class TC>
GEMM_DEVICE bool has_aligned_rows(const GemmArgs<TA, TB, TC>& old) {
  return (reinterpret_cast<uintptr_t>(old.C) | static_cast<uintptr_t>(old.ldc) * sizeof(TC)) % 16 ==
         0;
}

// Adds beta times C's pairs.
template <class TC, int PAIRS>
GEMM_DEVICE void add_pairs(float beta, float* acc, const Pair<TC> (&pairs)[PAIRS]) {
#pragma unroll
  for (int i = 0; i < PAIRS; ++i) {
    float left, right;
    unpack<TC>(pairs[i], left, right);
    acc[2 * i] = fmaf(beta, left, acc[2 * i]);
    acc[2 * i + 1] = fmaf(beta, right, acc[2 * i + 1]);
  }
}

template <int AT_ONCE = 32, int COUNT, class... T>
GEMM_DEVICE void apply_epilogue(const FusedArgs<T...>& p, bool aligned_c, int m, int n,
                                float (&acc)[COUNT]) {
  using TC = typename GemmArgs<T...>::TypeC;
  static_assert(sizeof(TC) == 2 && COUNT % AT_ONCE == 0, "whole steps");
  const int tid = at_use(int(threadIdx.x));
  const int row = m + tid % 128 / 32 * 16 + tid % 32 / 4, col = n + tid % 4 * 2;
  scale_accumulators<false>(p, row, col, acc);
  if (p.fused.reads_c()) {
    const GemmArgs<T...> old = with_old_c(p);
    const auto add = [&](auto aligned) {
#pragma unroll
      for (int i = 0; i < COUNT; i += AT_ONCE) {
        // A branch, always taken, keeps a step's reads behind the step before: no spills.
        if (COUNT > 64 && at_use(old.C) == nullptr) continue;
        Pair<TC> pairs[AT_ONCE / 2] = {};
        load_pairs<decltype(aligned)::value, AT_ONCE>(old, row, col + i * 2, pairs);
        add_pairs<TC>(p.fused.beta, acc + i, pairs);
      }
    };
    aligned_c&& has_aligned_rows(old) ? add(std::true_type{}) : add(std::false_type{});
  }
  add_biases<false>(p, row, col, acc);
  activate_fused<TC>(p.fused, acc);
}

// Two values of each of four neighbouring lanes, exchanged: lane l has columns l and 4 + l of eight,
// and gets 2 l and 2 l + 1.
GEMM_DEVICE void exchange_columns(float& left, float& right) {
  const bool upper = threadIdx.x & 2, odd = threadIdx.x & 1;
  float other = __shfl_xor_sync(~0u, upper ? left : right, 2);
  (upper ? left : right) = other;
  other = __shfl_xor_sync(~0u, odd ? left : right, 1);
  (odd ? left : right) = other;
}

// The epilogue with gates. A thread holds both columns of a pair, a gate and its value. What comes of
// them is in the first half of the accumulators then, in the order of COUNT / 2 of D.
template <int AT_ONCE = 32, int COUNT, class... T>
GEMM_DEVICE void apply_epilogue(const GatedArgs<T...>& p, bool, int m, int n, float (&acc)[COUNT]) {
  using TC = typename GemmArgs<T...>::TypeC;
  static_assert(sizeof(TC) == 2 && COUNT % 32 == 0, "whole steps");
  const int tid = at_use(int(threadIdx.x));
  const int row = m + tid % 128 / 32 * 16 + tid % 32 / 4, col = n + tid % 4 * 2;
  scale_accumulators<false>(p, row, col, acc);
  add_biases<false>(p, row, col, acc);
  activate_fused<TC, 2>(p.fused, acc);
#pragma unroll
  for (int i = 0; i < COUNT; i += 8) {  // 16 columns of two rows
    const float upper[2] = {acc[i] * acc[i + 1], acc[i + 4] * acc[i + 5]};
    const float lower[2] = {acc[i + 2] * acc[i + 3], acc[i + 6] * acc[i + 7]};
    acc[i / 2] = upper[0], acc[i / 2 + 1] = upper[1];
    acc[i / 2 + 2] = lower[0], acc[i / 2 + 3] = lower[1];
    exchange_columns(acc[i / 2], acc[i / 2 + 1]);
    exchange_columns(acc[i / 2 + 2], acc[i / 2 + 3]);
  }
}

// Stores them straight from the registers: a tile of 96 columns of D is not whole panels.
template <int EPILOGUE_STAGES, int COUNT, class Map, class... T>
GEMM_DEVICE void store_panels(const GatedArgs<T...>& p, bool aligned_c, const Map&, int m, int n,
                              uint8_t (&)[EPILOGUE_STAGES][8192], int, const float (&acc)[COUNT]) {
  float d[COUNT / 2];
#pragma unroll
  for (int i = 0; i < COUNT / 2; ++i) d[i] = acc[i];
  const GemmArgs<T...> out = with_columns_of_d(p);
  if (aligned_c)
    store_accumulators_aligned(out, m, n / 2, d);
  else
    store_pairs(out, false, m, n / 2, d);
}

template <int AT_ONCE = 32, int COUNT, class... T>
GEMM_DEVICE void apply_epilogue_transposed(const FusedArgs<T...>& p, int m, int n,
                                           float (&acc)[COUNT]) {
  using TC = typename GemmArgs<T...>::TypeC;
  constexpr int LOADS = AT_ONCE / 4;
  static_assert(COUNT % AT_ONCE == 0 && AT_ONCE % 4 == 0, "whole steps");
  const int lane = threadIdx.x % 32, odd = lane % 2;
  // The accumulators' own row and column, of C^T.
  const int x = n + threadIdx.x % 128 / 32 * 16 + lane / 4, y = m + lane % 4 * 2;
  scale_accumulators<true>(p, x, y, acc);
  if (p.fused.reads_c()) {
    const GemmArgs<T...> old = with_old_c(p);
    const bool aligned = has_aligned_rows(old);
    const int row = m + lane / 4;
    const int col = n + threadIdx.x % 128 / 32 * 16 + odd * 8 + lane % 4 / 2 * 4;
    const TC* c = old.C + row * old.ldc + col;
#pragma unroll
    for (int i = 0; i < COUNT; i += AT_ONCE) {
      uint2 words[LOADS] = {};
#pragma unroll
      for (int j = 0; j < LOADS; ++j, c += 8 * old.ldc)
        if (row + (i + j * 4) * 2 < p.M && col < p.N) {
          if (aligned) {
            words[j] = *reinterpret_cast<const uint2*>(c);
          } else {
            const TC four[4] = {c[0], c[1], c[2], c[3]};
            memcpy(&words[j], four, sizeof words[j]);
          }
        }
      uint32_t pairs[AT_ONCE / 2];
#pragma unroll
      for (int j = 0; j < LOADS; ++j) {
        const uint32_t other = __shfl_xor_sync(~0u, odd ? words[j].x : words[j].y, 1);
        pairs[2 * j] = movmatrix_trans(odd ? other : words[j].x);
        pairs[2 * j + 1] = movmatrix_trans(odd ? words[j].y : other);
      }
      add_pairs<TC>(p.fused.beta, acc + i, pairs);
    }
  }
  add_biases<true>(p, x, y, acc);
  activate_fused<TC>(p.fused, acc);
}

template <int COLS, class... T>
GEMM_DEVICE void prefetch_c(const FusedArgs<T...>& p, bool aligned_c, int m, int n, int rows) {
  const GemmArgs<T...> old = with_old_c(p);
  prefetch_c<COLS>(old, aligned_c && has_aligned_rows(old), m, n, rows);
}

GEMM_BUILD_NAMESPACE_END
