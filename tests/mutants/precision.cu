// Dot products whose arithmetic is a parameter: right ones, and ones of a precision that they do
// not have. Each thread makes an element of C.
#include <cmath>
#include <cstring>
#include <map>
#include <tuple>
#include <vector>

#include "precision.h"
#include "registration.h"
#include "rung.h"

namespace {
using namespace gemm;

constexpr int TILE = 16, BK = 32;  // threads a side; the k-tile of those that have one

GEMM_DEVICE uint32_t bits_of(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}
GEMM_DEVICE float from_bits(uint32_t bits) {
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}
// x with `BITS` significant bits: nearest, ties to even.
template <int BITS>
GEMM_DEVICE float nearest(float x) {
  constexpr int LOST = 24 - BITS;
  const uint32_t bits = bits_of(x);
  return from_bits((bits + ((1u << (LOST - 1)) - 1) + (bits >> LOST & 1)) & ~((1u << LOST) - 1));
}
template <int BITS>
GEMM_DEVICE float cut(float x) {
  return from_bits(bits_of(x) & ~((1u << (24 - BITS)) - 1));
}
// The float next to x on the side of zero, unless x is one.
GEMM_DEVICE float toward_zero(double x) {
  const float nearest = static_cast<float>(x);
  return (x < 0 ? -x : x) < (nearest < 0 ? -double{nearest} : double{nearest})
             ? from_bits(bits_of(nearest) - 1)
             : nearest;
}

// What arithmetic is right: floats multiplied and added in float.
struct Right {
  static constexpr double PRODUCT_ERROR = 0;
  float acc = 0;
  GEMM_DEVICE static float input_a(float x) { return x; }
  GEMM_DEVICE static float input_b(float x) { return x; }
  // How often the product at k counts; K: of all.
  GEMM_DEVICE static int count(int, int) { return 1; }
  GEMM_DEVICE void add(float a, float b, int) { acc = fmaf(a, b, acc); }
  GEMM_DEVICE float sum() const { return acc; }
  GEMM_DEVICE static float input_c(float x) { return x; }
  GEMM_DEVICE static float scalar(float x) { return x; }  // alpha or beta
  template <class T>
  GEMM_DEVICE static float product(float sum) {
    return sum;
  }
  template <class T>
  GEMM_DEVICE static T output(float x, int) {
    return T(x);
  }
};
// TF32 as tensor cores take it: the lower 13 bits of a float are not looked at.
struct RightTf32 : Right {
  GEMM_DEVICE static float input_a(float x) { return cut<11>(x); }
  GEMM_DEVICE static float input_b(float x) { return cut<11>(x); }
};

// Inputs
template <int BITS, class Base = Right>
struct RoundedInputs : Base {
  GEMM_DEVICE static float input_a(float x) { return nearest<BITS>(x); }
  GEMM_DEVICE static float input_b(float x) { return nearest<BITS>(x); }
};
struct BfloatInputsDeclared : RoundedInputs<8> {
  static constexpr double PRODUCT_ERROR = 0x1p-7;
};
template <int BITS>
struct CutInputs : Right {
  GEMM_DEVICE static float input_a(float x) { return cut<BITS>(x); }
  GEMM_DEVICE static float input_b(float x) { return cut<BITS>(x); }
};
template <int BITS>
struct RoundedB : Right {
  GEMM_DEVICE static float input_b(float x) { return nearest<BITS>(x); }
};
struct HalfInputs : Right {
  GEMM_DEVICE static float input_a(float x) { return float(half(x)); }
  GEMM_DEVICE static float input_b(float x) { return float(half(x)); }
};

// Sums
template <int BITS, class Base = Right>
struct RoundedSums : Base {  // after each product
  GEMM_DEVICE void add(float a, float b, int) { this->acc = nearest<BITS>(fmaf(a, b, this->acc)); }
};
struct HalfSums : Right {
  GEMM_DEVICE void add(float a, float b, int) { acc = float(half(fmaf(a, b, acc))); }
};
template <int STEP>
struct HalfSumsByStep : Right {  // in float within an instruction's k, then rounded to half
  float step = 0;
  GEMM_DEVICE void add(float a, float b, int k) {
    step = fmaf(a, b, step);
    if (k % STEP == STEP - 1) acc = float(half(acc + step)), step = 0;
  }
  GEMM_DEVICE float sum() const { return float(half(acc + step)); }
};
struct HalfPartials : Right {  // K in k-tiles of 32, each one's sum handed on as a half
  float part = 0;
  GEMM_DEVICE void add(float a, float b, int k) {
    part = fmaf(a, b, part);
    if (k % BK == BK - 1) acc += float(half(part)), part = 0;
  }
  GEMM_DEVICE float sum() const { return acc + float(half(part)); }
};
template <int STEP>
struct PromotedHalves : Right {  // within STEP of k in half, and those sums added in float
  float part = 0;
  GEMM_DEVICE void add(float a, float b, int k) {
    part = float(half(fmaf(a, b, part)));
    if (k % STEP == STEP - 1) acc += part, part = 0;
  }
  GEMM_DEVICE float sum() const { return acc + part; }
};
struct CutSums : Right {
  GEMM_DEVICE void add(float a, float b, int) { acc = toward_zero(double{acc} + double{a} * b); }
};

// Split inputs: a = hi + lo, 11 bits each.
template <int PRODUCTS, bool DECLARED>
struct Split : Right {
  static constexpr double PRODUCT_ERROR = DECLARED ? 0x1p-19 : 0;
  GEMM_DEVICE void add(float a, float b, int) {
    const float a_hi = cut<11>(a), b_hi = cut<11>(b);
    if (PRODUCTS >= 3) acc = fmaf(a_hi, cut<11>(b - b_hi), acc);
    if (PRODUCTS >= 2) acc = fmaf(cut<11>(a - a_hi), b_hi, acc);
    acc = fmaf(a_hi, b_hi, acc);
  }
};
template <int PRODUCTS, bool DECLARED>
struct SplitHalves : Right {
  static constexpr double PRODUCT_ERROR = DECLARED ? 0x1p-20 : 0;
  GEMM_DEVICE void add(float a, float b, int) {
    const float a_hi = nearest<11>(a), b_hi = nearest<11>(b);
    if (PRODUCTS >= 3) acc = fmaf(a_hi, nearest<11>(b - b_hi), acc);
    if (PRODUCTS >= 2) acc = fmaf(nearest<11>(a - a_hi), b_hi, acc);
    acc = fmaf(a_hi, b_hi, acc);
  }
};
// v14 without its additions in float: tensor cores cut off after every eight k of each product.
struct SplitCutSums : Split<3, true> {
  double step[3] = {};
  GEMM_DEVICE void add(float a, float b, int k) {
    const float a_hi = cut<11>(a), b_hi = cut<11>(b);
    step[0] += double{cut<11>(a - a_hi)} * b_hi, step[1] += double{a_hi} * cut<11>(b - b_hi);
    step[2] += double{a_hi} * b_hi;
    if (k % 8 == 7) flush();
  }
  GEMM_DEVICE void flush() {
    for (double& s : step) acc = toward_zero(double{acc} + s), s = 0;
  }
  GEMM_DEVICE float sum() {
    flush();
    return acc;
  }
};

// K-tiles. Which one: some way in.
template <int COUNT, class Base = Right>
struct TileCounts : Base {
  GEMM_DEVICE static int count(int k, int K) { return k / BK == K / BK * 5 / 8 ? COUNT : 1; }
};
template <class Base = Right>
struct LastLeftOut : Base {
  GEMM_DEVICE static int count(int k, int K) { return k != K - 1; }
};

template <int TILE_K>
struct LastTileLeftOut : Right {
  GEMM_DEVICE static int count(int k, int K) { return k < (K - 1) / TILE_K * TILE_K; }
};

// C and the scalars
struct HalfC : Right {
  GEMM_DEVICE static float input_c(float x) { return float(half(x)); }
};
template <int BITS>
struct RoundedC : Right {
  GEMM_DEVICE static float input_c(float x) { return nearest<BITS>(x); }
};
struct PositiveScalars : Right {
  GEMM_DEVICE static float scalar(float x) { return x < 0 ? -x : x; }
};
struct WholeScalars : Right {  // 0.5 is 1, -1.25 is -1
  GEMM_DEVICE static float scalar(float x) {
    return x == 0 ? 0 : x < 0 ? -ceilf(-x - 0.5f) : ceilf(x - 0.5f) + (x <= 0.5f);
  }
};
struct ProductRounded : Right {
  template <class T>
  GEMM_DEVICE static float product(float sum) {
    return float(T(sum));
  }
};

// Range
struct Clamped : Right {  // fminf and fmaxf would lose a NaN, too
  GEMM_DEVICE static float clamp(float x) { return x > 65504 ? 65504 : x < -65504 ? -65504 : x; }
};
struct ClampedInputs : Clamped {
  GEMM_DEVICE static float input_a(float x) { return clamp(x); }
  GEMM_DEVICE static float input_b(float x) { return clamp(x); }
};
struct ClampedOutput : Clamped {
  template <class T>
  GEMM_DEVICE static T output(float x, int) {
    return T(clamp(x));
  }
};
struct OutputThroughHalf : Right {
  template <class T>
  GEMM_DEVICE static T output(float x, int) {
    return T(float(half(x)));
  }
};
GEMM_DEVICE bool is_subnormal(float x, bool of_half) {
  return (x < 0 ? -x : x) < (of_half ? 0x1p-14f : 0x1p-126f);
}
template <bool OF_HALF>
struct FlushedInputs : Right {
  GEMM_DEVICE static float input_a(float x) { return is_subnormal(x, OF_HALF) ? 0 : x; }
  GEMM_DEVICE static float input_b(float x) { return is_subnormal(x, OF_HALF) ? 0 : x; }
};
struct FlushedHalfOutput : Right {
  template <class T>
  GEMM_DEVICE static T output(float x, int) {
    return T(is_subnormal(x, true) ? 0 : x);
  }
};
struct NanIsZero : Right {
  GEMM_DEVICE static float input_a(float x) { return x == x ? x : 0; }
};
struct InfinityIsZero : Right {
  GEMM_DEVICE static float finite(float x) { return x - x == 0 || x != x ? x : 0; }
  GEMM_DEVICE static float input_a(float x) { return finite(x); }
  GEMM_DEVICE static float input_b(float x) { return finite(x); }
};
struct InfinityIsLargest : Right {
  GEMM_DEVICE static float input_b(float x) {
    return x == INFINITY ? 3.4e38f : x == -INFINITY ? -3.4e38f : x;
  }
};
struct ZerosSkipped : Right {  // a sparse product: 0 times infinity is 0
  GEMM_DEVICE void add(float a, float b, int) {
    if (b != 0) acc = fmaf(a, b, acc);
  }
};

// Outputs
struct CutOutput : Right {
  template <class T>
  GEMM_DEVICE static T output(float x, int) {
    return T(std::is_same_v<T, half> ? cut<11>(x) : cut<8>(x));
  }
};
struct StochasticOutput : Right {  // up or down by chance, right on average
  template <class T>
  GEMM_DEVICE static T output(float x, int i) {
    constexpr int LOST = std::is_same_v<T, half> ? 13 : 16;
    const uint32_t random = static_cast<uint32_t>(i) * 2654435761u >> (32 - LOST);
    return T(from_bits((bits_of(x) + random) & ~((1u << LOST) - 1)));
  }
};

struct AwayFromZeroOutput : Right {  // half way between two numbers, to the larger
  template <class T>
  GEMM_DEVICE static T output(float x, int) {
    constexpr int LOST = std::is_same_v<T, half> ? 13 : 16;
    const bool normal = x - x == 0 && !is_subnormal(x, std::is_same_v<T, half>);
    return T(normal ? from_bits((bits_of(x) + (1u << (LOST - 1))) & ~((1u << LOST) - 1)) : x);
  }
};
struct NegativeZeroOutput : Right {
  template <class T>
  GEMM_DEVICE static T output(float x, int) {
    return T(x == 0 ? -0.0f : x);
  }
};

template <class T, class TC, class Arithmetic>
__global__ void gemm_dot(GemmArgs<T, T, TC> p) {
  const int tiles_n = cdiv(p.N, TILE);
  const int m = blockIdx.x / tiles_n * TILE + threadIdx.y;
  const int n = blockIdx.x % tiles_n * TILE + threadIdx.x;
  if (m >= p.M || n >= p.N) return;
  Arithmetic x;
  for (int k = 0; k < p.K; ++k)
    for (int i = x.count(k, p.K); i > 0; --i)
      x.add(x.input_a(float(p.A[m * p.lda + k])), x.input_b(float(p.B[k * p.ldb + n])), k);
  TC* const c = p.C + m * p.ldc + n;
  const float beta = x.scalar(p.epilogue.beta);
  const float result = x.scalar(p.epilogue.alpha) * x.template product<TC>(x.sum()) +
                       (p.epilogue.beta == 0 ? 0 : beta * x.input_c(float(*c)));
  *c = x.template output<TC>(result, m * p.N + n);
}

template <class T, class TC, class Arithmetic>
void launch_dot(const GemmArgs<T, T, TC>& p, Stream stream) {
  const int64_t grid = int64_t{cdiv(p.M, TILE)} * cdiv(p.N, TILE);
  gemm::launch(gemm_dot<T, TC, Arithmetic>, grid, dim3(TILE, TILE), {}, stream, p);
}

template <DType DTYPE>
using Element = std::conditional_t<
    DTYPE == DType::f16, half,
    std::conditional_t<DTYPE == DType::bf16, bf16,
                       std::conditional_t<DTYPE == DType::e4m3_f32_fast, f8e4m3, float>>>;
template <DType DTYPE>
using Output = std::conditional_t<DTYPE == DType::e4m3_f32_fast, float, Element<DTYPE>>;

template <DType DTYPE, class Arithmetic>
Rung rung(const char* name) {
  Rung r;
  r.id = r.name = name;
  r.dtype = DTYPE;
  r.backend = BACKEND;
  r.product_error = Arithmetic::PRODUCT_ERROR;
  r.narrow_range = Arithmetic::PRODUCT_ERROR != 0;
  r.launch = calls_of(entry(DTYPE, launch_dot<Element<DTYPE>, Output<DTYPE>, Arithmetic>)).launch;
  return r;
}

// What a call does beside a right product.
__global__ void write_input(float* x) { *x = 1.5f; }
void change_a(const GemmArgs<float>& p, Stream stream) {
  launch_dot<float, float, Right>(p, stream);
  if (p.M > 0 && p.K > 0)
    gemm::launch(write_input, 1, dim3(1), {}, stream, const_cast<float*>(p.A));
}
void change_b(const GemmArgs<float>& p, Stream stream) {
  launch_dot<float, float, Right>(p, stream);
  if (p.N > 0 && p.K > 0)
    gemm::launch(write_input, 1, dim3(1), {}, stream,
                 const_cast<float*>(p.B) + (p.K - 1) * p.ldb + p.N - 1);
}
void on_the_default_stream(const GemmArgs<float>& p, Stream) {
  launch_dot<float, float, Right>(p, Stream{});
}
#if !GEMM_ON_GPU
// The C of an earlier call, where the first element of A and of B are as they were then.
void from_memory(const GemmArgs<float>& p, Stream stream) {
  using Key = std::tuple<const void*, const void*, const void*, int64_t, float, float>;
  static std::map<Key, std::vector<float>> results;
  if (p.M == 0 || p.N == 0 || p.K == 0) return launch_dot<float, float, Right>(p, stream);
  std::vector<float>& c = results[{p.A, p.B, p.C, p.ldc, *p.A, *p.B}];
  const bool known = std::ssize(c) == p.M * p.ldc;
  if (!known) launch_dot<float, float, Right>(p, stream);
  for (int m = 0; m < p.M; ++m)
    for (int n = 0; n < p.N; ++n) {
      c.resize(p.M * p.ldc);
      float& its = c[m * p.ldc + n];
      known ? p.C[m * p.ldc + n] = its : its = p.C[m * p.ldc + n];
    }
}
#endif
PrecisionMutant side_effect(const char* name, const char* does, LaunchFn<float> fn) {
  Rung r = rung<DType::f32, Right>(name);
  r.launch = calls_of(entry(DType::f32, fn)).launch;
  return {r, "f32", does};
}
template <DType DTYPE, class Arithmetic>
PrecisionMutant mutant(const char* name, const char* does, int from_K = 1) {
  return {rung<DTYPE, Arithmetic>(name),
          Arithmetic::PRODUCT_ERROR > 0 ? "f32, split" : info(DTYPE).name, does, from_K};
}

std::vector<PrecisionMutant> all_mutants() {
  constexpr DType F32 = DType::f32, F16 = DType::f16, BF16 = DType::bf16, TF32 = DType::tf32;
  return {
    mutant<F32, RoundedInputs<11>>("f32_tf32_inputs", "inputs rounded to TF32"),
        mutant<F32, CutInputs<11>>("f32_tf32_inputs_cut", "inputs cut to TF32"),
        mutant<F32, RoundedB<11>>("f32_tf32_b", "B alone rounded to TF32"),
        mutant<F32, RoundedInputs<8>>("f32_bf16_inputs", "inputs rounded to bf16"),
        mutant<F32, HalfInputs>("f32_f16_inputs", "inputs rounded to half"),
        mutant<F32, BfloatInputsDeclared>("f32_bf16_inputs_declared", "bf16 inputs, 2^-7 declared"),
        mutant<F32, RoundedInputs<23>>("f32_23_bits", "inputs rounded to 23 of 24 bits"),
        mutant<F32, HalfSums>("f32_half_sums", "sums in half"),
        mutant<F32, RoundedSums<8>>("f32_bf16_sums", "sums in bf16"),
        mutant<F32, RoundedSums<11>>("f32_tf32_sums", "sums in TF32"),
        mutant<F32, RoundedSums<20>>("f32_20_bit_sums", "sums of 20 bits"),
        mutant<F32, CutSums>("f32_cut_sums", "sums cut off, not rounded"),
        mutant<F32, HalfPartials>("f32_half_partials", "partial sums handed on in half"),
        mutant<F32, Split<3, false>>("f32_3xtf32", "3xTF32, not declared"),
        mutant<F32, SplitHalves<3, false>>("f32_two_halves", "two halves a number, not declared"),
        mutant<F32, Split<1, true>>("split_1_product", "TF32 parts, no correction"),
        mutant<F32, Split<2, true>>("split_2_products", "two of 3xTF32's products"),
        mutant<F32, SplitHalves<1, true>>("halves_1_product", "half parts, no correction"),
        mutant<F32, SplitHalves<2, true>>("halves_2_products", "two of three products of halves"),
        mutant<F32, SplitCutSums>("split_cut_sums", "3xTF32 summed by tensor cores alone", 4096),
        mutant<F32, TileCounts<0>>("f32_tile_left_out", "one k-tile of 32 left out"),
        mutant<F32, TileCounts<2>>("f32_tile_twice", "one k-tile of 32 added twice"),
        mutant<F32, LastLeftOut<>>("f32_last_k_left_out", "the last k left out"),
        mutant<F32, PromotedHalves<1>>("f32_half_products", "each product rounded to half"),
        mutant<F32, HalfC>("f32_half_c", "C read as half"),
        mutant<F32, RoundedC<23>>("f32_23_bit_c", "C read with 23 of 24 bits"),
        mutant<F32, PositiveScalars>("f32_positive_scalars", "|alpha| and |beta|"),
        mutant<F32, WholeScalars>("f32_whole_scalars", "alpha and beta rounded to integers"),
        mutant<F32, ClampedInputs>("f32_clamped_inputs", "inputs clamped to 65504"),
        mutant<F32, ClampedOutput>("f32_clamped_output", "output clamped to 65504"),
        mutant<F32, FlushedInputs<false>>("f32_flushed", "subnormal inputs read as 0"),
        mutant<F32, NanIsZero>("f32_nan_is_zero", "NaN of A read as 0"),
        mutant<F32, InfinityIsZero>("f32_infinity_is_zero", "infinities read as 0"),
        mutant<F32, InfinityIsLargest>("f32_infinity_is_largest", "infinities of B read as 3.4e38"),
        mutant<F32, ZerosSkipped>("f32_zeros_skipped", "zeros of B skipped, also times infinity"),
        mutant<F32, NegativeZeroOutput>("f32_negative_zero", "-0 for 0"),
        side_effect("f32_changes_a", "one element of A overwritten", change_a),
        side_effect("f32_changes_b", "one element of B overwritten", change_b),
        side_effect("f32_default_stream", "launched on the default stream", on_the_default_stream),
#if !GEMM_ON_GPU
        side_effect("f32_from_memory", "an earlier C for the same pointers", from_memory),
#endif
        mutant<F16, ProductRounded>("f16_product_rounded", "rounded to half before alpha"),
        mutant<F16, PromotedHalves<8>>("f16_promoted_halves_8", "8 of k in half, then float"),
        mutant<F16, PromotedHalves<4>>("f16_promoted_halves_4", "4 of k in half, then float"),
        mutant<F16, PromotedHalves<2>>("f16_promoted_halves_2", "2 of k in half, then float"),
        mutant<F16, PromotedHalves<1>>("f16_half_products", "each product rounded to half"),
        mutant<F16, RoundedC<8>>("f16_bf16_c", "C read as bf16"),
        mutant<F16, PositiveScalars>("f16_positive_scalars", "|alpha| and |beta|"),
        mutant<F16, FlushedInputs<true>>("f16_flushed", "subnormal inputs read as 0"),
        mutant<F16, FlushedHalfOutput>("f16_flushed_output", "subnormal results are 0"),
        mutant<F16, ClampedOutput>("f16_clamped_output", "output clamped to 65504"),
        mutant<F16, NanIsZero>("f16_nan_is_zero", "NaN of A read as 0"),
        mutant<F16, InfinityIsZero>("f16_infinity_is_zero", "infinities read as 0"),
        mutant<F16, AwayFromZeroOutput>("f16_away_from_zero", "output's ties away from zero"),
        mutant<F16, NegativeZeroOutput>("f16_negative_zero", "-0 for 0"),
        mutant<F16, HalfSums>("f16_half_sums", "sums in half"),
        mutant<F16, HalfSumsByStep<16>>("f16_half_sums_16", "sums in half, after every 16 k"),
        mutant<F16, HalfPartials>("f16_half_partials", "partial sums handed on in half"),
        mutant<F16, RoundedSums<8>>("f16_bf16_sums", "sums in bf16"),
        mutant<F16, RoundedSums<11>>("f16_tf32_sums", "sums in TF32"),
        mutant<F16, RoundedSums<14>>("f16_14_bit_sums", "sums of 14 bits, as FP8's"),
        mutant<F16, RoundedInputs<8>>("f16_bf16_inputs", "inputs rounded to bf16"),
        mutant<F16, RoundedInputs<4>>("f16_e4m3_inputs", "inputs rounded to e4m3's 4 bits"),
        mutant<F16, CutOutput>("f16_cut_output", "output cut off, not rounded"),
        mutant<F16, StochasticOutput>("f16_stochastic_output", "output rounded by chance"),
        mutant<F16, TileCounts<0>>("f16_tile_left_out", "one k-tile of 32 left out"),
        mutant<F16, TileCounts<2>>("f16_tile_twice", "one k-tile of 32 added twice"),
        mutant<F16, LastLeftOut<>>("f16_last_k_left_out", "the last k left out"),
        mutant<BF16, HalfInputs>("bf16_half_inputs", "inputs by way of half"),
        mutant<BF16, OutputThroughHalf>("bf16_output_by_half", "output by way of half"),
        mutant<BF16, PromotedHalves<1>>("bf16_half_products", "each product rounded to half"),
        mutant<BF16, PromotedHalves<8>>("bf16_promoted_halves_8", "8 of k in half, then float"),
        mutant<BF16, ProductRounded>("bf16_product_rounded", "rounded to bf16 before alpha"),
        mutant<BF16, InfinityIsZero>("bf16_infinity_is_zero", "infinities read as 0"),
        mutant<BF16, AwayFromZeroOutput>("bf16_away_from_zero", "output's ties away from zero"),
        mutant<BF16, HalfSums>("bf16_half_sums", "sums in half"),
        mutant<BF16, RoundedSums<8>>("bf16_bf16_sums", "sums in bf16"),
        mutant<BF16, RoundedSums<11>>("bf16_tf32_sums", "sums in TF32"),
        mutant<BF16, RoundedSums<14>>("bf16_14_bit_sums", "sums of 14 bits, as FP8's"),
        mutant<BF16, RoundedInputs<4>>("bf16_e4m3_inputs", "inputs rounded to e4m3's 4 bits"),
        mutant<BF16, CutOutput>("bf16_cut_output", "output cut off, not rounded"),
        mutant<BF16, StochasticOutput>("bf16_stochastic_output", "output rounded by chance"),
        mutant<BF16, TileCounts<0>>("bf16_tile_left_out", "one k-tile of 32 left out"),
        mutant<BF16, TileCounts<2>>("bf16_tile_twice", "one k-tile of 32 added twice"),
        mutant<TF32, RoundedInputs<8>>("tf32_bf16_inputs", "inputs rounded to bf16"),
        mutant<TF32, HalfSums>("tf32_half_sums", "sums in half"),
        mutant<TF32, RoundedSums<11, RightTf32>>("tf32_tf32_sums", "sums in TF32"),
        mutant<TF32, TileCounts<0, RightTf32>>("tf32_tile_left_out", "one k-tile of 32 left out"),
        mutant<TF32, TileCounts<2, RightTf32>>("tf32_tile_twice", "one k-tile of 32 added twice"),
        mutant<DType::e4m3_f32_fast, LastTileLeftOut<128>>("fp8_last_tile_left_out",
                                                           "the last k-tile of 128 left out"),
        mutant<DType::e4m3_f32_fast, LastTileLeftOut<32>>("fp8_last_32_left_out",
                                                          "the last 32 of k left out"),
  };
}

std::vector<Rung> all_twins() {
  return {rung<DType::f32, Right>("f32_right"),
          rung<DType::f16, Right>("f16_right"),
          rung<DType::bf16, Right>("bf16_right"),
          rung<DType::tf32, RightTf32>("tf32_right"),
          rung<DType::e4m3_f32_fast, Right>("fp8_right"),
          rung<DType::f32, Split<3, true>>("split_right"),
          rung<DType::f32, SplitHalves<3, true>>("halves_right")};
}

}  // namespace

namespace gemm {
#if GEMM_ON_GPU
std::vector<PrecisionMutant> gpu_precision_mutants() { return all_mutants(); }
std::vector<Rung> gpu_precision_twins() { return all_twins(); }
#else
std::vector<PrecisionMutant> sim_precision_mutants() { return all_mutants(); }
std::vector<Rung> sim_precision_twins() { return all_twins(); }
#endif
}  // namespace gemm
