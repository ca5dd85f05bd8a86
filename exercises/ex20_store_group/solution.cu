// ex20: blocks that compute tile after tile, and have each stored by TMA from one buffer.
#include <algorithm>

#include "device/dynamic_shared.cuh"
#include "device/epilogue.cuh"
#include "device/ptx/tma.cuh"
#include "device/tile_copy.cuh"
#include "device/tma.h"
#include "exercise.h"

namespace {
using namespace gemm;

constexpr int BM = 32, BN = 32, BK = 32;  // block tile
constexpr int TM = 4;                     // thread tile: 4 rows of one column
constexpr int THREADS = BM / TM * BN;     // 8 x 32
constexpr int BLOCKS = 4;                 // that the grid has at most

template <bool TMA>
__global__ void __launch_bounds__(THREADS)
    gemm_ex20(GemmArgs<float> p, const __grid_constant__ TensorMap map_c) {
  const int tm = threadIdx.y, tn = threadIdx.x, tid = tm * BN + tn;
  alignas(16) __shared__ float sA[BM][BK], sB[BK][BN];
  auto* sC = static_cast<float*>(dynamic_shared());  // [BM][BN]

  const int tiles_n = cdiv(p.N, BN), tiles = cdiv(p.M, BM) * tiles_n;
  for (int tile = blockIdx.x; tile < tiles; tile += BLOCKS) {
    const int bm = tile / tiles_n, bn = tile % tiles_n;
    const float* gA = p.A + bm * BM * p.lda;
    const float* gB = p.B + bn * BN;
    float acc[TM] = {};
    for (int k0 = 0; k0 < p.K; k0 += BK) {
      copy_tile<THREADS>(sA, gA + k0, p.lda, p.M - bm * BM, p.K - k0, tid);
      copy_tile<THREADS>(sB, gB + k0 * p.ldb, p.ldb, p.K - k0, p.N - bn * BN, tid);
      __syncthreads();
      for (int k = 0; k < BK; ++k)
        for (int i = 0; i < TM; ++i) acc[i] += sA[tm * TM + i][k] * sB[k][tn];
      __syncthreads();
    }

    if constexpr (TMA) {
      // The last store must have read the buffer before anyone writes to it.
      if (tid == 0) tma_store_wait_read<0>();  // groups are those of the thread that committed
      __syncthreads();
      for (int i = 0; i < TM; ++i) sC[(tm * TM + i) * BN + tn] = p.epilogue.alpha * acc[i];
      fence_proxy_async();
      __syncthreads();
      if (tid == 0) {
        tma_store(map_c, bm * BM, bn * BN, sC);
        tma_store_commit();
      }
    } else {
      for (int i = 0; i < TM; ++i) store(p, bm * BM + tm * TM + i, bn * BN + tn, acc[i]);
    }
  }
  if (TMA && tid == 0) tma_store_wait_read<0>();
}

// TMA stores whole groups of 16 bytes, and never reads C.
void launch(const GemmArgs<float>& p, Stream stream) {
  const int64_t tiles = int64_t{cdiv(p.M, BM)} * cdiv(p.N, BN);
  const dim3 block(BN, BM / TM);
  const size_t smem = BM * BN * sizeof(float);
  if (p.epilogue.beta == 0 && tma_can_address(p.C, p.ldc) && p.N % 4 == 0)
    gemm::launch(gemm_ex20<true>, std::min<int64_t>(tiles, BLOCKS), block, {.smem = smem}, stream,
                 p, tensor_map(p.C, p.M, p.N, p.ldc, BM, BN, Swizzle::none));
  else
    gemm::launch(gemm_ex20<false>, std::min<int64_t>(tiles, BLOCKS), block, {.smem = smem}, stream,
                 p, TensorMap{});
}

const Exercise exercise(launch);

}  // namespace
