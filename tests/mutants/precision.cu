// Dot products whose arithmetic is a parameter: right ones, and ones of a precision that they do
// not have. Each thread makes an element of C.
#include <cmath>
#include <cstring>

#include "precision.h"
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

template <class T, class Arithmetic>
__global__ void gemm_dot(GemmArgs<T> p) {
  const int tiles_n = cdiv(p.N, TILE);
  const int m = blockIdx.x / tiles_n * TILE + threadIdx.y;
  const int n = blockIdx.x % tiles_n * TILE + threadIdx.x;
  if (m >= p.M || n >= p.N) return;
  Arithmetic x;
  for (int k = 0; k < p.K; ++k)
    for (int i = x.count(k, p.K); i > 0; --i)
      x.add(x.input_a(float(p.A[m * p.lda + k])), x.input_b(float(p.B[k * p.ldb + n])), k);
  T* const c = p.C + m * p.ldc + n;
  const float result =
      p.epilogue.alpha * x.sum() + (p.epilogue.beta == 0 ? 0 : p.epilogue.beta * float(*c));
  *c = x.template output<T>(result, m * p.N + n);
}

template <class T, class Arithmetic>
void launch_dot(const GemmArgs<T>& p, Stream stream) {
  const int64_t grid = int64_t{cdiv(p.M, TILE)} * cdiv(p.N, TILE);
  gemm::launch(gemm_dot<T, Arithmetic>, grid, dim3(TILE, TILE), {}, stream, p);
}

template <DType DTYPE>
using Element = std::conditional_t<DTYPE == DType::f16, half,
                                   std::conditional_t<DTYPE == DType::bf16, bf16, float>>;

template <DType DTYPE, class Arithmetic>
Rung rung(const char* name) {
  Rung r;
  r.id = r.name = name;
  r.dtype = DTYPE;
  r.backend = BACKEND;
  r.product_error = Arithmetic::PRODUCT_ERROR;
  r.launch = entry(DTYPE, launch_dot<Element<DTYPE>, Arithmetic>).launch;
  return r;
}
template <DType DTYPE, class Arithmetic>
PrecisionMutant mutant(const char* name, const char* does, int from_K = 1) {
  static const char* const CLAIMS[] = {"f32", "f16", "tf32", "bf16"};
  return {rung<DTYPE, Arithmetic>(name),
          Arithmetic::PRODUCT_ERROR > 0 ? "f32, split" : CLAIMS[static_cast<int>(DTYPE)], does,
          from_K};
}

std::vector<PrecisionMutant> all_mutants() {
  constexpr DType F32 = DType::f32, F16 = DType::f16, BF16 = DType::bf16, TF32 = DType::tf32;
  return {
      mutant<F32, RoundedInputs<11>>("f32_tf32_inputs", "inputs rounded to TF32"),
      mutant<F32, CutInputs<11>>("f32_tf32_inputs_cut", "inputs cut to TF32"),
      mutant<F32, RoundedB<11>>("f32_tf32_b", "B alone rounded to TF32"),
      mutant<F32, RoundedInputs<8>>("f32_bf16_inputs", "inputs rounded to bf16"),
      mutant<F32, HalfInputs>("f32_f16_inputs", "inputs rounded to half"),
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
  };
}

std::vector<Rung> all_twins() {
  return {rung<DType::f32, Right>("f32_right"),
          rung<DType::f16, Right>("f16_right"),
          rung<DType::bf16, Right>("bf16_right"),
          rung<DType::tf32, RightTf32>("tf32_right"),
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
