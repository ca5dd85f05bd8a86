// Planted bugs: GEMMs that are wrong in exactly one way each, for the checks to catch. They are small (16 x 16 blocks, one thread an
// element, a k-tile of 16) and run in the simulator; `MUTANT` names the bug.
#include "device/ptx/cp_async.cuh"
#include "mutants.h"
#include "rung.h"

namespace {
using namespace gemm;

constexpr int TILE = 16;

enum Bug {
  NONE,
  ALL_NAN,
  ONE_ELEMENT_OFF,
  UNWRITTEN_EDGE,
  IGNORED_BETA,
  BETA_ZERO_READS_C,
  IGNORED_LDC,
  MISSING_FIRST_BARRIER,
  MISSING_SECOND_BARRIER,
  LAST_K_TILE_DROPPED,
  EDGE_NOT_ZEROED,
  WRITES_PAST_THE_EDGE,
  RETURN_BEFORE_BARRIER,
  FORGOTTEN_BIAS,
  FORGOTTEN_ROW_BIAS,
  BIAS_BY_ROW,
  BIAS_AFTER_ACTIVATION,
  SCALED_BIAS,
  FORGOTTEN_SCALE,
  SCALE_BY_ROW,
  IGNORED_RESIDUAL,
  RESIDUAL_WITH_LDC,
  HALF_RESIDUAL,
  HALF_BIAS,
  HALF_ROW_BIAS,
  HALF_SCALE_ROWS,
  HALF_SCALE_COLUMNS,
};

// An element of D where the epilogue has operands.
template <int BUG>
GEMM_DEVICE float epilogue_mutant(const FusedArgs<float>& p, int m, int n, float acc) {
  FusedEpilogue e = p.fused;
  const int column = BUG == BIAS_BY_ROW ? m : n;
  if (BUG == FORGOTTEN_BIAS) e.bias = nullptr;
  if (BUG == FORGOTTEN_ROW_BIAS) e.row_bias = nullptr;
  if (BUG == FORGOTTEN_SCALE) e.scale_columns = nullptr;
  if (BUG == IGNORED_RESIDUAL) e.c = nullptr;
  if (BUG == RESIDUAL_WITH_LDC) e.ldc = p.ldc;
  const auto as_half = [](bool narrow, float x) { return narrow ? float(half(x)) : x; };
  float scale = e.scale_at(m, BUG == SCALE_BY_ROW ? m : n);
  float bias = e.bias_at<float>(m, column) * (BUG == SCALED_BIAS ? scale : 1);
  if (BUG == HALF_SCALE_ROWS || BUG == HALF_SCALE_COLUMNS)
    scale = as_half(BUG == HALF_SCALE_ROWS, e.scale_rows[m]) *
            as_half(BUG == HALF_SCALE_COLUMNS, e.scale_columns[n]);
  if (BUG == HALF_BIAS || BUG == HALF_ROW_BIAS)
    bias = as_half(BUG == HALF_BIAS, static_cast<const float*>(e.bias)[n]) +
           as_half(BUG == HALF_ROW_BIAS, static_cast<const float*>(e.row_bias)[m]);
  const float old =
      e.reads_c() ? as_half(BUG == HALF_RESIDUAL, *e.c_at(m, n, p.C + m * p.ldc + n)) : 0;
  float x[1] = {e.alpha * scale * acc + e.beta * old + (BUG == BIAS_AFTER_ACTIVATION ? 0 : bias)};
  e.activate(x);
  return x[0] + (BUG == BIAS_AFTER_ACTIVATION ? bias : 0);
}

template <int BUG>
__global__ void gemm_mutant(FusedArgs<float> p) {
  const int tiles_n = cdiv(p.N, TILE);
  const int bm = blockIdx.x / tiles_n, bn = blockIdx.x % tiles_n;
  const int tm = threadIdx.y, tn = threadIdx.x;
  const int m = bm * TILE + tm, n = bn * TILE + tn;
  if (BUG == RETURN_BEFORE_BARRIER && (m >= p.M || n >= p.N)) return;
  alignas(16) __shared__ float sA[TILE][TILE], sB[TILE][TILE];
  float acc = 0;
  const int end = BUG == LAST_K_TILE_DROPPED ? p.K / TILE * TILE : p.K;
  for (int k0 = 0; k0 < end; k0 += TILE) {
    const bool in_a = m < p.M && (BUG == EDGE_NOT_ZEROED || k0 + tn < p.K);
    const bool in_b = k0 + tm < p.K && n < p.N;
    sA[tm][tn] = in_a ? p.A[m * p.lda + k0 + tn] : 0;
    sB[tm][tn] = in_b ? p.B[(k0 + tm) * p.ldb + n] : 0;
    if (BUG != MISSING_FIRST_BARRIER) __syncthreads();
    for (int k = 0; k < TILE; ++k) acc += sA[tm][k] * sB[k][tn];
    if (BUG != MISSING_SECOND_BARRIER) __syncthreads();
  }
  const bool inside = m < p.M && n < p.N;
  if (!inside && !(BUG == WRITES_PAST_THE_EDGE && m < p.M)) return;
  if (BUG == UNWRITTEN_EDGE && n == p.N - 1) return;
  float* c = p.C + (BUG == IGNORED_LDC ? int64_t{m} * p.N : m * p.ldc) + n;
  if (BUG == ALL_NAN) acc = __builtin_nanf("");
  if (BUG == ONE_ELEMENT_OFF && m == p.M / 2 && n == p.N / 2) acc += 1;
  if (p.fused.has_vectors() || p.fused.c != nullptr)
    *c = epilogue_mutant<BUG>(p, m, n, acc);
  else if (BUG == IGNORED_BETA)
    *c = p.epilogue.alpha * acc;
  else if (p.epilogue.beta == 0 && BUG != BETA_ZERO_READS_C)
    *c = p.epilogue.alpha * acc;
  else
    *c = p.epilogue.alpha * acc + p.epilogue.beta * *c;
}

// A tile of A through cp.async, with or without the wait. K is cut into k-tiles of 4 floats (16
// bytes).
template <bool WAITS>
__global__ void gemm_async(GemmArgs<float> p) {
  const int tiles_n = cdiv(p.N, 32);
  const int m = blockIdx.x / tiles_n, n = blockIdx.x % tiles_n * 32 + threadIdx.x;
  alignas(16) __shared__ float sA[4];
  float acc = 0;
  for (int k0 = 0; k0 < p.K; k0 += 4) {
    if (threadIdx.x == 0) cp_async_16(sA, p.A + m * p.lda + k0, std::min(4, p.K - k0) * 4);
    cp_async_commit();
    if (WAITS) cp_async_wait<0>();
    __syncthreads();
    for (int k = 0; k < std::min(4, p.K - k0); ++k)
      if (n < p.N) acc += sA[k] * p.B[(k0 + k) * p.ldb + n];
    __syncthreads();
  }
  if (n < p.N)
    p.C[m * p.ldc + n] =
        p.epilogue.alpha * acc + (p.epilogue.beta == 0 ? 0 : p.epilogue.beta * p.C[m * p.ldc + n]);
}

template <int BUG>
void launch_mutant(const FusedArgs<float>& p, Stream stream) {
  const int64_t grid = int64_t{cdiv(p.M, TILE)} * cdiv(p.N, TILE);
  gemm::launch(gemm_mutant<BUG>, grid, dim3(TILE, TILE), {}, stream, p);
}
template <bool WAITS>
void launch_async(const FusedArgs<float>& fused, Stream stream) {
  const GemmArgs<float>& p = fused;
  gemm::launch(gemm_async<WAITS>, int64_t{p.M} * cdiv(p.N, 32), dim3(32), {}, stream, p);
}

// A batch by a launch each, with or without a mistake.
enum BatchBug {
  NO_BATCH_BUG,
  LAST_PRODUCT_LEFT_OUT,
  FIRST_A_FOR_ALL,
  FIRST_B_FOR_ALL,
  STRIDE_OF_A_FOR_B,
  PRODUCTS_OF_C_SWAPPED,
  GAP_OF_C_IGNORED,
};
template <int BUG>
void launch_batch(const FusedArgs<float>& p, Stream stream) {
  const int count = p.batch.count - (BUG == LAST_PRODUCT_LEFT_OUT);
  for (int i = 0; i < count; ++i) {
    FusedArgs<float> one{product_of(p, i), p.fused};
    if (BUG == FIRST_A_FOR_ALL) one.A = p.A;
    if (BUG == FIRST_B_FOR_ALL) one.B = p.B;
    if (BUG == STRIDE_OF_A_FOR_B) one.B = p.B + i * p.batch.stride_a;
    if (BUG == PRODUCTS_OF_C_SWAPPED && i < 2) one.C = p.C + (1 - i) * p.batch.stride_c;
    if (BUG == GAP_OF_C_IGNORED) one.C = p.C + i * int64_t{p.M} * p.ldc;
    launch_mutant<NONE>(one, stream);
  }
}

// Gated products, a thread an element of D, with or without a mistake.
enum GateBug {
  NO_GATE_BUG,
  GATE_AND_VALUE_SWAPPED,
  HALVES_FOR_PAIRS,
  FORGOTTEN_VALUE,
  FORGOTTEN_GATE,
  ACTIVATED_PRODUCT,
  BIAS_BY_COLUMN_OF_D,
  FORGOTTEN_BIAS_OF_VALUE,
};
template <int BUG>
__global__ void gemm_gated(FusedArgs<float> p) {
  const int columns = p.N / 2, tiles_n = cdiv(columns, TILE);
  const int m = blockIdx.x / tiles_n * TILE + threadIdx.y;
  const int n = blockIdx.x % tiles_n * TILE + threadIdx.x;
  if (m >= p.M || n >= columns) return;
  float x[2];
  for (int i = 0; i < 2; ++i) {
    const int column = BUG == HALVES_FOR_PAIRS ? n + i * columns : 2 * n + i;
    float sum = 0;
    for (int k = 0; k < p.K; ++k) sum += p.A[m * p.lda + k] * p.B[k * p.ldb + column];
    const bool biased = BUG != FORGOTTEN_BIAS_OF_VALUE || i == 0;
    x[i] = p.fused.alpha * sum +
           (biased ? p.fused.bias_at<float>(m, BUG == BIAS_BY_COLUMN_OF_D ? n : column) : 0);
  }
  if (BUG == GATE_AND_VALUE_SWAPPED) std::swap(x[0], x[1]);
  float gate[1] = {BUG == ACTIVATED_PRODUCT ? x[0] * x[1] : x[0]};
  p.fused.activate(gate);
  const bool alone = BUG == FORGOTTEN_VALUE || BUG == ACTIVATED_PRODUCT;
  p.C[m * p.ldc + n] = BUG == FORGOTTEN_GATE ? x[1] : alone ? gate[0] : gate[0] * x[1];
}
template <int BUG>
Rung gates(const char* name) {
  Rung r;
  r.id = r.name = name;
  r.dtype = DType::f32;
  r.backend = BACKEND;
  r.launch = [](const GemmCall& c) {
    gemm::launch(gemm_gated<BUG>, int64_t{cdiv(c.M, TILE)} * cdiv(c.N / 2, TILE), dim3(TILE, TILE),
                 {}, static_cast<Stream>(c.stream), fused<float>(c));
  };
  return r;
}

// FP8 products with block scales, a thread an element of C, with or without a mistake.
enum BlockScaleBug {
  NO_BLOCK_SCALE_BUG,
  FORGOTTEN_SCALES_OF_A,
  FORGOTTEN_SCALES_OF_B,
  FIRST_BLOCKS_FOR_ALL,
  SCALES_OF_THE_BLOCK_BEFORE,
  SCALES_AFTER_256_OF_K,
  PITCH_OF_A_IGNORED,
  PITCH_OF_B_IGNORED,
  SCALES_OF_A_BY_BLOCK_ROWS,
  SCALES_OF_B_FOR_64_COLUMNS,
  SCALES_ROUNDED_TO_BF16,
};
template <int BUG>
__global__ void gemm_block_scales(GemmArgs<f8e4m3, f8e4m3, float> p) {
  const int tiles_n = cdiv(p.N, TILE);
  const int m = blockIdx.x / tiles_n * TILE + threadIdx.y;
  const int n = blockIdx.x % tiles_n * TILE + threadIdx.x;
  if (m >= p.M || n >= p.N) return;
  const int64_t lda = BUG == PITCH_OF_A_IGNORED ? p.M : p.scales.lda;
  const int64_t ldb = BUG == PITCH_OF_B_IGNORED ? cdiv(p.K, BlockScales::K) : p.scales.ldb;
  const int row = BUG == SCALES_OF_A_BY_BLOCK_ROWS ? m / 128 * 128 : m;
  const int block_n = BUG == SCALES_OF_B_FOR_64_COLUMNS ? n / 64 % cdiv(p.N, 128) : n / 128;
  constexpr int PART = BUG == SCALES_AFTER_256_OF_K ? 256 : 128;
  float sum = 0;
  for (int k0 = 0; k0 < p.K; k0 += PART) {
    float part = 0;
    for (int k = k0; k < p.K && k < k0 + PART; ++k)
      part += float(p.A[m * p.lda + k]) * float(p.B[k * p.ldb + n]);
    int block = k0 / 128;
    if (BUG == FIRST_BLOCKS_FOR_ALL) block = 0;
    if (BUG == SCALES_OF_THE_BLOCK_BEFORE && block > 0) --block;
    float a = p.scales.a[block * lda + row], b = p.scales.b[block_n * ldb + block];
    if (BUG == FORGOTTEN_SCALES_OF_A) a = 1;
    if (BUG == FORGOTTEN_SCALES_OF_B) b = 1;
    if (BUG == SCALES_ROUNDED_TO_BF16) a = float(bf16(a)), b = float(bf16(b));
    sum += a * b * part;
  }
  float& c = p.C[m * p.ldc + n];
  c = p.epilogue(sum, p.epilogue.reads_c() ? c : 0);
}
template <int BUG>
Rung block_scales(const char* name) {
  Rung r;
  r.id = r.name = name;
  r.dtype = DType::e4m3_f32_block;
  r.backend = BACKEND;
  r.launch = [](const GemmCall& c) {
    gemm::launch(gemm_block_scales<BUG>, int64_t{cdiv(c.M, TILE)} * cdiv(c.N, TILE),
                 dim3(TILE, TILE), {}, static_cast<Stream>(c.stream),
                 typed<f8e4m3, f8e4m3, float>(c));
  };
  return r;
}

Rung rung(const char* name, void (*fn)(const FusedArgs<float>&, Stream)) {
  Rung r;
  r.id = r.name = name;
  r.dtype = DType::f32;
  r.backend = BACKEND;
  r.launch = [fn](const GemmCall& c) { fn(fused<float>(c), static_cast<Stream>(c.stream)); };
  return r;
}

}  // namespace

namespace gemm {

std::vector<Rung> correct_twins() {
  return {rung("no_bug", launch_mutant<NONE>), rung("no_bug_cp_async", launch_async<true>)};
}

Rung correct_batch() { return rung("no_batch_bug", launch_batch<NO_BATCH_BUG>); }

std::vector<Rung> batch_mutants() {
  return {rung("last_product_left_out", launch_batch<LAST_PRODUCT_LEFT_OUT>),
          rung("first_a_for_all", launch_batch<FIRST_A_FOR_ALL>),
          rung("first_b_for_all", launch_batch<FIRST_B_FOR_ALL>),
          rung("stride_of_a_for_b", launch_batch<STRIDE_OF_A_FOR_B>),
          rung("products_of_c_swapped", launch_batch<PRODUCTS_OF_C_SWAPPED>),
          rung("gap_of_c_ignored", launch_batch<GAP_OF_C_IGNORED>)};
}

Rung correct_block_scales() { return block_scales<NO_BLOCK_SCALE_BUG>("no_block_scale_bug"); }

std::vector<Rung> block_scale_mutants() {
  return {block_scales<FORGOTTEN_SCALES_OF_A>("forgotten_scales_of_a"),
          block_scales<FORGOTTEN_SCALES_OF_B>("forgotten_scales_of_b"),
          block_scales<FIRST_BLOCKS_FOR_ALL>("first_blocks_for_all"),
          block_scales<SCALES_OF_THE_BLOCK_BEFORE>("scales_of_the_block_before"),
          block_scales<SCALES_AFTER_256_OF_K>("scales_after_256_of_k"),
          block_scales<PITCH_OF_A_IGNORED>("pitch_of_a_ignored"),
          block_scales<PITCH_OF_B_IGNORED>("pitch_of_b_ignored"),
          block_scales<SCALES_OF_A_BY_BLOCK_ROWS>("scales_of_a_by_block_rows"),
          block_scales<SCALES_OF_B_FOR_64_COLUMNS>("scales_of_b_for_64_columns"),
          block_scales<SCALES_ROUNDED_TO_BF16>("scales_rounded_to_bf16")};
}

std::vector<Rung> mutants() {
  return {rung("all_nan", launch_mutant<ALL_NAN>),
          rung("one_element_off", launch_mutant<ONE_ELEMENT_OFF>),
          rung("unwritten_edge", launch_mutant<UNWRITTEN_EDGE>),
          rung("ignored_beta", launch_mutant<IGNORED_BETA>),
          rung("beta_zero_reads_c", launch_mutant<BETA_ZERO_READS_C>),
          rung("ignored_ldc", launch_mutant<IGNORED_LDC>),
          rung("missing_first_barrier", launch_mutant<MISSING_FIRST_BARRIER>),
          rung("missing_second_barrier", launch_mutant<MISSING_SECOND_BARRIER>),
          rung("last_k_tile_dropped", launch_mutant<LAST_K_TILE_DROPPED>),
          rung("edge_not_zeroed", launch_mutant<EDGE_NOT_ZEROED>),
          rung("writes_past_the_edge", launch_mutant<WRITES_PAST_THE_EDGE>),
          rung("return_before_barrier", launch_mutant<RETURN_BEFORE_BARRIER>),
          rung("missing_cp_async_wait", launch_async<false>)};
}

Rung correct_gates() { return gates<NO_GATE_BUG>("correct_gates"); }
std::vector<Rung> gate_mutants() {
  return {gates<GATE_AND_VALUE_SWAPPED>("gate_and_value_swapped"),
          gates<HALVES_FOR_PAIRS>("halves_for_pairs"),
          gates<FORGOTTEN_VALUE>("forgotten_value"),
          gates<FORGOTTEN_GATE>("forgotten_gate"),
          gates<ACTIVATED_PRODUCT>("activated_product"),
          gates<BIAS_BY_COLUMN_OF_D>("bias_by_column_of_d"),
          gates<FORGOTTEN_BIAS_OF_VALUE>("forgotten_bias_of_value")};
}

std::vector<Rung> narrow_operand_mutants() {
  return {rung("half_residual", launch_mutant<HALF_RESIDUAL>),
          rung("half_bias", launch_mutant<HALF_BIAS>),
          rung("half_row_bias", launch_mutant<HALF_ROW_BIAS>),
          rung("half_scale_rows", launch_mutant<HALF_SCALE_ROWS>),
          rung("half_scale_columns", launch_mutant<HALF_SCALE_COLUMNS>)};
}

std::vector<Rung> epilogue_mutants() {
  return {rung("forgotten_bias", launch_mutant<FORGOTTEN_BIAS>),
          rung("forgotten_row_bias", launch_mutant<FORGOTTEN_ROW_BIAS>),
          rung("bias_by_row", launch_mutant<BIAS_BY_ROW>),
          rung("bias_after_activation", launch_mutant<BIAS_AFTER_ACTIVATION>),
          rung("scaled_bias", launch_mutant<SCALED_BIAS>),
          rung("forgotten_scale", launch_mutant<FORGOTTEN_SCALE>),
          rung("scale_by_row", launch_mutant<SCALE_BY_ROW>),
          rung("ignored_residual", launch_mutant<IGNORED_RESIDUAL>),
          rung("residual_with_ldc", launch_mutant<RESIDUAL_WITH_LDC>)};
}

}  // namespace gemm
