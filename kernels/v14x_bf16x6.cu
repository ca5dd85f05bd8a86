// v14x BF16x6: FP32 from tensor cores at every exponent, each number as three bf16.
//
// before: v14w's halves keep 22 bits of 24, and of a number far below its row's largest fewer; three
//         products drop what counts 2^-20 of a product
// idea:   a bf16 has float's range and 8 bits: three hold every finite float exactly. Of the nine
//         products six are multiplied; the other three together count less than the rounding of a
//         float product, 2^-24. Parts are stored times 1, 2^8 and 2^16, so that none falls below
//         bf16's range; products of one scale are added in the tensor cores, smallest first
// watch:  six wgmma a product, where v14w has three; 96 KiB a k-tile; bits kept of a number far
//         below its row's largest, and of subnormal ones
// needs:  sm_90a; not counted as FP32 multiply-adds; an infinity makes its row or column NaN; sums of
//         |a b| of a k-tile below 2^127, half of float's largest
//
//   role        threads   waits for       then                             and tells
//   producer    one       empty[stage]    loads six tiles of 16 KiB        full[stage], TMA's bytes
//   consumers   2 x 128   full[stage]     24 wgmma m64n128k16, 128 adds    empty[stage]
#include "device/operand_tile.cuh"
#include "device/pipeline.cuh"
#include "device/scheduler.cuh"
#include "device/split.cuh"
#include "device/wgmma_epilogue.cuh"
#include "rung.h"

namespace {
using namespace gemm;

constexpr int BM = 128, BN = 128, BK = 64, STAGES = 2;  // CTA tile, k-tiles in the pipeline
constexpr int MMA_M = 64, MMA_K = 16;                   // one wgmma, BN wide
constexpr int GROUP_M = 8;                              // rows of tiles that are worked on together
constexpr int CONSUMERS = BM / MMA_M;                   // warpgroups, each with 64 rows
constexpr int THREADS = (CONSUMERS + 1) * 128;          // and the producer's
constexpr int PRODUCER_REGS = 40, CONSUMER_REGS = 232;

struct alignas(1024) Stage {
  uint8_t A[BF16_PARTS][BM * BK * 2], B[BF16_PARTS][BN * BK * 2];
};
struct Maps {
  TensorMap A[BF16_PARTS], B[BF16_PARTS];
};

template <Major A_MAJOR, Major B_MAJOR>
__global__ void __launch_bounds__(THREADS, 1)
    gemm_v14x(GemmArgs<float> p, bool wide, const __grid_constant__ Maps maps) {
  using TileA = OperandTile<bf16, BM, A_MAJOR>;
  using TileB = OperandTile<bf16, BN, B_MAJOR>;
  // Where am I?
  const auto [bm, bn] = grouped_tile<GROUP_M>(blockIdx.x, cdiv(p.M, BM), cdiv(p.N, BN));
  const int tid = threadIdx.x, wg = tid / 128;

  // The pipeline.
  auto* stages = static_cast<Stage*>(dynamic_shared());
  __shared__ uint64_t full[STAGES], empty[STAGES];
  if (tid == 0) init_ring<STAGES>(full, empty, CONSUMERS);
  __syncthreads();

  Slot<STAGES> slot;
  if (wg == CONSUMERS) {
    // The producer.
    setmaxnreg_dec<PRODUCER_REGS>();
    if (tid / 32 % 4 != 0 || !elect_one()) return;
    for (int k0 = 0; k0 < p.K; k0 += BK, slot.advance()) {
      Stage& s = stages[slot.stage];
      mbarrier_wait(&empty[slot.stage], slot.phase ^ 1);
      mbarrier_arrive_expect_tx(&full[slot.stage], sizeof(Stage));
#pragma unroll
      for (int part = 0; part < BF16_PARTS; ++part) {
        TileA::load(s.A[part], maps.A[part], bm * BM, k0, &full[slot.stage]);
        TileB::load(s.B[part], maps.B[part], bn * BN, k0, &full[slot.stage]);
      }
    }
    return;
  }

  // A consumer.
  setmaxnreg_inc<CONSUMER_REGS>();
  const int wm = wg * MMA_M;
  float acc[BN / 2] = {};
  for (int k0 = 0; k0 < p.K; k0 += BK, slot.advance()) {
    const Stage& s = stages[slot.stage];
    mbarrier_wait(&full[slot.stage], slot.phase);
    // [region idea]
    float sum[BN / 2], rest[BN / 2];  // of this k-tile, on tensor cores
    // d (+)= A's part i times B's part j
    const auto multiply = [&](float(&d)[BN / 2], int i, int j, bool first) {
#pragma unroll
      for (int k = 0; k < BK / MMA_K; ++k)
        wgmma<bf16, BN, A_MAJOR, B_MAJOR>(d, TileA::descriptor(s.A[i], wm) + k * TileA::K_STEP,
                                          TileB::descriptor(s.B[j]) + k * TileB::K_STEP,
                                          !(first && k == 0));
    };
    wgmma_fence();
    multiply(rest, 2, 0, true);  // parts i and j are stored times 2^(8 (i + j)): here 2^16
    multiply(rest, 1, 1, false);
    multiply(rest, 0, 2, false);
    wgmma_commit();
    multiply(sum, 0, 0, true);
    wgmma_commit();
    wgmma_wait<1>(rest);  // the tensor cores go on with `sum`
#pragma unroll
    for (float& x : rest) x /= 1 << BF16_SHIFT;
    hold_registers(rest);
    wgmma_fence();
    multiply(rest, 1, 0, false);  // 2^8
    multiply(rest, 0, 1, false);
    wgmma_commit();
    wgmma_wait<0>(rest);
    hold_registers(sum);
    if (tid % 128 == 0) mbarrier_arrive(&empty[slot.stage]);
#pragma unroll
    for (int i = 0; i < BN / 2; ++i) acc[i] += sum[i] + rest[i] / (1 << BF16_SHIFT);  // in FP32
    // [/region idea]
  }
  store_accumulators(p, wide, bm * BM + wm, bn * BN, acc);
}

void launch(const GemmArgs<float>& p, Stream stream) {
  const int64_t grid = int64_t{cdiv(p.M, BM)} * cdiv(p.N, BN);
  if (grid == 0) return;
  const bool a_n = p.op_a == Op::N, b_n = p.op_b == Op::N;
  const Bf16Parts A({p.A, a_n ? p.M : p.K, a_n ? p.K : p.M, p.lda}, stream);
  const Bf16Parts B({p.B, b_n ? p.K : p.N, b_n ? p.N : p.K, p.ldb}, stream);
  with_majors(p, [&](auto a, auto b) {
    Maps maps;
    for (int part = 0; part < BF16_PARTS; ++part) {
      maps.A[part] = OperandTile<bf16, BM, a()>::map(A.part(part), p.M, p.K, A.ld);
      maps.B[part] = OperandTile<bf16, BN, b()>::map(B.part(part), p.N, p.K, B.ld);
    }
    gemm::launch(gemm_v14x<a(), b()>, grid, dim3(THREADS), {.smem = STAGES * sizeof(Stage)}, stream,
                 p, has_wide_rows(p), maps);
  });
}

const Registration rung({.prev = "v14w",
                         .idea = "FP32 at every exponent: three bf16 a number, six products",
                         .needs = {.sm = 90, .exact_arch = true, .transposed = true},
                         .product_error = 0x1.1p-24},
                        {f32(launch)});

}  // namespace
