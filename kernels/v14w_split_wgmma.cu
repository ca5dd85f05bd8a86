// v14w split wgmma: 22 bits of FP32's 24 from tensor cores, each number as two halves.
//
// before: v14 splits every fragment anew in each of the warps that read it, and TF32 runs at half
//         the rate of f16
// idea:   a half has TF32's 11 bits and a small range, which a power of two for each row of A and
//         column of B makes up for. Split everything once, into scratch memory, a = hi + lo, and
//         let TMA and wgmma make lo * hi + hi * lo and hi * hi: a k-tile's sums in the tensor
//         cores, then added in FP32
// watch:  error against double precision; bytes: 64 KiB a k-tile; the time of the split; two
//         consumers, so that one adds while the other's wgmma run
// needs:  sm_90a; not counted as FP32 multiply-adds; an infinity makes its row or column NaN; a
//         number below 2^-28 of its row's or column's largest loses bits
//
//   role        threads   waits for       then                            and tells
//   producer    one       empty[stage]    loads four tiles of 16 KiB      full[stage], TMA's bytes
//   consumers   2 x 128   full[stage]     12 wgmma m64n128k16, 128 adds   empty[stage]
//
//   barrier        completes after
//   full[stage]    1 arrival, the producer's, and TMA's bytes
//   empty[stage]   2 arrivals, one of each consumer
//
//   producer     | load k-tile 0 | 1 | 2 | wait | 3 ...
//   consumer 0                   | wgmma | add | wgmma | add ...
//   consumer 1                   | wait  | wgmma | add | wgmma ...
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

constexpr int BM = 128, BN = 128, BK = 64, STAGES = 3;  // CTA tile, k-tiles in the pipeline
constexpr int MMA_M = 64, MMA_K = 16;                   // one wgmma, BN wide
constexpr int GROUP_M = 8;                              // rows of tiles that are worked on together
constexpr int CONSUMERS = BM / MMA_M;                   // warpgroups, each with 64 rows
constexpr int THREADS = (CONSUMERS + 1) * 128;          // and the producer's
constexpr int PRODUCER_REGS = 40, CONSUMER_REGS = 232;

struct alignas(1024) Stage {
  uint8_t A_hi[BM * BK * 2], A_lo[BM * BK * 2], B_hi[BN * BK * 2], B_lo[BN * BK * 2];
};
struct Maps {
  TensorMap A_hi, A_lo, B_hi, B_lo;
};

using TileA = OperandTile<half, BM, Major::K>;
using TileB = OperandTile<half, BN, Major::MN>;

__global__ void __launch_bounds__(THREADS, 1)
    gemm_v14w(GemmArgs<float> p, bool aligned_c, const __grid_constant__ Maps maps,
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
      uint64_t* const there = &full[state.stage];
      mbarrier_wait(&empty[state.stage], state.phase ^ 1);
      mbarrier_arrive_expect_tx(there, sizeof(Stage));
      TileA::load(s.A_hi, maps.A_hi, bm * BM, k0, there);
      TileA::load(s.A_lo, maps.A_lo, bm * BM, k0, there);
      TileB::load(s.B_hi, maps.B_hi, bn * BN, k0, there);
      TileB::load(s.B_lo, maps.B_lo, bn * BN, k0, there);
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
    const auto multiply = [&](float(&d)[BN / 2], const uint8_t* a, const uint8_t* b, bool first) {
#pragma unroll
      for (int k = 0; k < BK / MMA_K; ++k)
        wgmma<half, BN, Major::K, Major::MN>(d, TileA::descriptor(a, wm) + k * TileA::K_STEP,
                                             TileB::descriptor(b) + k * TileB::K_STEP,
                                             !(first && k == 0));
    };
    wgmma_fence();
    multiply(rest, s.A_lo, s.B_hi, true);
    multiply(rest, s.A_hi, s.B_lo, false);
    multiply(sum, s.A_hi, s.B_hi, true);
    wgmma_commit();
    wgmma_wait<0>(sum);
    fence_operand(rest);
    if (tid % 128 == 0) mbarrier_arrive(&empty[state.stage]);
#pragma unroll
    for (int i = 0; i < BN / 2; ++i)
      acc[i] += sum[i] + rest[i] / (1 << TwoHalves::LO_SHIFT);  // in FP32
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
  const SplitOperand<TwoHalves> A(p.A, p.M, p.K, p.lda, /*k_major=*/true, stream);
  const SplitOperand<TwoHalves> B(p.B, p.N, p.K, p.ldb, /*k_major=*/false, stream);
  const auto map_a = [&](half* part) { return TileA::map(part, p.M, p.K, A.ld); };
  const auto map_b = [&](half* part) { return TileB::map(part, p.N, p.K, B.ld); };
  const Maps maps{map_a(A.part(0)), map_a(A.part(1)), map_b(B.part(0)), map_b(B.part(1))};
  gemm::launch(gemm_v14w, grid, dim3(THREADS), {.smem = STAGES * sizeof(Stage)}, stream, p,
               has_aligned_c(p), maps, A.exponents(), B.exponents());
}

const Registration rung({.prev = "v14",
                         .idea = "nearly FP32 from f16 tensor cores: two halves a number, wgmma",
                         .needs = {.sm = 90, .exact_arch = true},
                         .product_error = 0x1.2p-21,
                         .narrow_range = true},
                        {f32(launch)});

}  // namespace
