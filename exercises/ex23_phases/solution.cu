// ex23: a pipeline of two stages, and the parity that each wait asks for.
#include "device/dynamic_shared.cuh"
#include "device/epilogue.cuh"
#include "device/ptx/mbarrier.cuh"
#include "device/ptx/tma.cuh"
#include "device/ptx/wgmma.cuh"
#include "device/tma.h"
#include "device/wgmma_descriptor.cuh"
#include "exercise.h"

namespace {
using namespace gemm;

constexpr int BM = 64, BN = 64, BK = 64, STAGES = 2;      // block tile, k-tiles in the pipeline
constexpr int CONSUMERS = 128, THREADS = CONSUMERS + 32;  // a warpgroup, and the producer's warp

struct Pipeline {
  struct {
    half A[BM][BK], B[BK][BN];
  } stage[STAGES];
  uint64_t full[STAGES], empty[STAGES];  // one arrival each: the producer's, a consumer's
};

__global__ void __launch_bounds__(THREADS)
    gemm_ex23(GemmArgs<half> p, const __grid_constant__ TensorMap map_a,
              const __grid_constant__ TensorMap map_b) {
  const int tiles_n = cdiv(p.N, BN);
  const int bm = blockIdx.x / tiles_n, bn = blockIdx.x % tiles_n, tid = threadIdx.x;
  auto& pipeline = *static_cast<Pipeline*>(dynamic_shared());
  if (tid == 0) {
    for (int s = 0; s < STAGES; ++s) {
      mbarrier_init(&pipeline.full[s], 1);
      mbarrier_init(&pipeline.empty[s], 1);
    }
    fence_mbarrier_init();
  }
  __syncthreads();

  const int k_tiles = cdiv(p.K, BK);
  if (tid >= CONSUMERS) {  // the producer
    for (int i = 0; i < k_tiles && tid == CONSUMERS; ++i) {
      auto& stage = pipeline.stage[i % STAGES];
      uint64_t* full = &pipeline.full[i % STAGES];
      mbarrier_wait(&pipeline.empty[i % STAGES], i / STAGES % 2 ^ 1);
      mbarrier_arrive_expect_tx(full, sizeof stage);
      tma_load(stage.A, map_a, bm * BM, i * BK, full);
      tma_load(stage.B, map_b, i * BK, bn * BN, full);
    }
    return;
  }
  float acc[BN / 2] = {};
  for (int i = 0; i < k_tiles; ++i) {
    auto& stage = pipeline.stage[i % STAGES];
    mbarrier_wait(&pipeline.full[i % STAGES], i / STAGES % 2);
    const uint64_t a = wgmma_descriptor<Major::K, Swizzle::b128>(stage.A, 0);
    const uint64_t b = wgmma_descriptor<Major::MN, Swizzle::b128>(stage.B, 0);
    wgmma_fence();
    for (int k = 0; k < BK / 16; ++k)
      wgmma<half, BN, Major::K, Major::MN>(
          acc, a + k * (k_step_bytes<Major::K, Swizzle::b128>(0) >> 4),
          b + k * (k_step_bytes<Major::MN, Swizzle::b128>(0) >> 4), true);
    wgmma_commit();
    wgmma_wait<0>(acc);
    if (tid == 0) mbarrier_arrive(&pipeline.empty[i % STAGES]);  // now it has been read
  }

  const int row = bm * BM + tid / 32 * 16 + tid % 32 / 4, col = bn * BN + tid % 4 * 2;
  for (int e = 0; e < BN / 2; ++e) store(p, row + e / 2 % 2 * 8, col + e / 4 * 8 + e % 2, acc[e]);
}

// For rows that TMA cannot address: one thread, one element.
__global__ void gemm_ex23_any(GemmArgs<half> p) {
  const int m = blockIdx.x / cdiv(p.N, 32), n = blockIdx.x % cdiv(p.N, 32) * 32 + threadIdx.x;
  float acc = 0;
  for (int k = 0; k < p.K && n < p.N; ++k)
    acc += float(p.A[m * p.lda + k]) * float(p.B[k * p.ldb + n]);
  store(p, m, n, acc);
}

void launch(const GemmArgs<half>& p, Stream stream) {
  const int64_t tiles = int64_t{cdiv(p.M, BM)} * cdiv(p.N, BN);
  if (tma_can_address(p.A, p.lda) && tma_can_address(p.B, p.ldb))
    gemm::launch(gemm_ex23, tiles, dim3(THREADS), {.smem = sizeof(Pipeline)}, stream, p,
                 tensor_map(p.A, p.M, p.K, p.lda, BM, BK, Swizzle::b128),
                 tensor_map(p.B, p.K, p.N, p.ldb, BK, BN, Swizzle::b128));
  else
    gemm::launch(gemm_ex23_any, int64_t{p.M} * cdiv(p.N, 32), dim3(32), {}, stream, p);
}

const Exercise exercise(launch);

}  // namespace
