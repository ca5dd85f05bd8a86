// v14x BF16x6: FP32 from tensor cores at every exponent, each number as three bf16.
//
// before: v14w's halves keep 22 bits of a float's 24, and fewer of a number that is 2^28 below its
//         row's largest; its three products leave out 2^-22 of a product
// idea:   a bf16 has float's range and 8 bits: three of them hold all 24. Of the nine products of
//         parts six are multiplied; the other three are at most 2^-24 of a product, what rounding
//         a float product may cost. A power of two for each row of A and column of B, as in v14w,
//         keeps the smallest parts above the end of the range
// watch:  error against double precision, by class of inputs (build/accuracy); six wgmma a product,
//         where v14w has three; 96 KiB a k-tile
// needs:  sm_90a; not counted as FP32 multiply-adds; an infinity makes its row or column NaN; a
//         number below 2^-156 of its row's largest loses bits
//
//   role        threads   waits for       then                             and tells
//   producer    one       empty[stage]    loads six tiles of 16 KiB        full[stage], TMA's bytes
//   consumers   2 x 128   full[stage]     24 wgmma m64n128k16, 128 adds    empty[stage]
#include "device/dynamic_shared.cuh"
#include "device/operand_tile.cuh"
#include "device/pipeline.cuh"
#include "device/ptx/mbarrier.cuh"
#include "device/ptx/tma.cuh"
#include "device/ptx/warp_roles.cuh"
#include "device/ptx/wgmma.cuh"
#include "device/scheduler.cuh"
#include "device/split.cuh"
#include "device/wgmma_epilogue.cuh"
#include "rung.h"

namespace {
using namespace gemm;

constexpr int BM = 128, BN = 128, BK = 64, STAGES = 2;  // CTA tile, k-tiles in the pipeline
constexpr int MMA_M = 64, MMA_K = 16;                   // one wgmma, BN wide
constexpr int PARTS = ThreeBf16::PARTS;                 // of a number
constexpr int GROUP_M = 8;                              // rows of tiles that are worked on together
constexpr int CONSUMERS = BM / MMA_M;                   // warpgroups, each with 64 rows
constexpr int THREADS = (CONSUMERS + 1) * 128;          // and the producer's
constexpr int PRODUCER_REGS = 40, CONSUMER_REGS = 232;

struct alignas(1024) Stage {
  uint8_t A[PARTS][BM * BK * 2], B[PARTS][BN * BK * 2];
};
struct Maps {
  TensorMap A[PARTS], B[PARTS];
};

using TileA = OperandTile<bf16, BM, Major::K>;
using TileB = OperandTile<bf16, BN, Major::MN>;

__global__ void __launch_bounds__(THREADS, 1)
    gemm_v14x(GemmArgs<float> p, bool aligned_c, const __grid_constant__ Maps maps,
              const int* a_exponents, const int* b_exponents) {
  // Where am I?
  const auto [bm, bn] = grouped_tile<GROUP_M>(blockIdx.x, cdiv(p.M, BM), cdiv(p.N, BN));
  const int tid = threadIdx.x, wg = tid / 128;

  // The pipeline.
  auto* stages = static_cast<Stage*>(dynamic_shared());
  __shared__ uint64_t full[STAGES], empty[STAGES];
  if (tid == 0) init_pipeline<STAGES>(full, empty, CONSUMERS);
  __syncthreads();

  PipelineState<STAGES> state;
  if (wg == CONSUMERS) {
    // The producer.
    setmaxnreg_dec<PRODUCER_REGS>();
    if (tid / 32 % 4 != 0 || !elect_one()) return;
    for (int k0 = 0; k0 < p.K; k0 += BK, state.advance()) {
      Stage& s = stages[state.stage];
      mbarrier_wait(&empty[state.stage], state.phase ^ 1);
      mbarrier_arrive_expect_tx(&full[state.stage], sizeof(Stage));
#pragma unroll
      for (int i = 0; i < PARTS; ++i) {
        TileA::load(s.A[i], maps.A[i], bm * BM, k0, &full[state.stage]);
        TileB::load(s.B[i], maps.B[i], bn * BN, k0, &full[state.stage]);
      }
    }
    return;
  }

  // A consumer.
  setmaxnreg_inc<CONSUMER_REGS>();
  const int wm = wg * MMA_M;
  float acc[BN / 2] = {};
  for (int k0 = 0; k0 < p.K; k0 += BK, state.advance()) {
    const Stage& s = stages[state.stage];
    mbarrier_wait(&full[state.stage], state.phase);
    // [region idea]
    float sum[BN / 2], rest[BN / 2];  // of this k-tile, on tensor cores
    // d (+)= part i of A times part j of B, with 0 = hi, 1 = mid, 2 = lo
    const auto multiply = [&](float(&d)[BN / 2], int i, int j, bool first) {
#pragma unroll
      for (int k = 0; k < BK / MMA_K; ++k)
        wgmma<bf16, BN, Major::K, Major::MN>(d, TileA::descriptor(s.A[i], wm) + k * TileA::K_STEP,
                                             TileB::descriptor(s.B[j]) + k * TileB::K_STEP,
                                             !(first && k == 0));
    };
    wgmma_fence();
    multiply(rest, 2, 0, true);  // three of 2^-16 of a product, then two of 2^-8
    multiply(rest, 1, 1, false);
    multiply(rest, 0, 2, false);
    multiply(rest, 1, 0, false);
    multiply(rest, 0, 1, false);
    multiply(sum, 0, 0, true);
    wgmma_commit();
    wgmma_wait<0>(sum);
    fence_operand(rest);
    if (tid % 128 == 0) mbarrier_arrive(&empty[state.stage]);
#pragma unroll
    for (int i = 0; i < BN / 2; ++i) acc[i] += sum[i] + rest[i];  // in FP32
    // [/region idea]
  }

  // Epilogue: takes the powers of two back.
  const int row = bm * BM + wm + tid % 128 / 32 * 16 + tid % 32 / 4, col = bn * BN + tid % 4 * 2;
#pragma unroll
  for (int i = 0; i < BN / 2; ++i) {
    const int m = row + i / 2 % 2 * 8, n = col + i / 4 * 8 + i % 2;
    if (m < p.M && n < p.N) acc[i] = scalbnf(acc[i], -a_exponents[m] - b_exponents[n]);
  }
  store_accumulators(p, aligned_c, bm * BM + wm, bn * BN, acc);
}

void launch(const GemmArgs<float>& p, Stream stream) {
  const int64_t grid = int64_t{cdiv(p.M, BM)} * cdiv(p.N, BN);
  if (grid == 0) return;
  const SplitOperand<ThreeBf16> A(p.A, p.M, p.K, p.lda, /*k_major=*/true, stream);
  const SplitOperand<ThreeBf16> B(p.B, p.N, p.K, p.ldb, /*k_major=*/false, stream);
  Maps maps;
  for (int i = 0; i < PARTS; ++i) {
    maps.A[i] = TileA::map(A.part(i), p.M, p.K, A.ld);
    maps.B[i] = TileB::map(B.part(i), p.N, p.K, B.ld);
  }
  gemm::launch(gemm_v14x, grid, dim3(THREADS), {.smem = STAGES * sizeof(Stage)}, stream, p,
               has_aligned_c(p), maps, A.exponents(), B.exponents());
}

const Registration rung({.prev = "v14w",
                         .idea = "FP32 from bf16 tensor cores: three bf16 a number, six products",
                         .needs = {.sm = 90, .exact_arch = true},
                         .product_error = 0x1.2p-24,
                         .narrow_range = true},
                        {f32(launch)});

}  // namespace
