// ex19: an epilogue by TMA: the tile of C is put into shared memory, and one thread has it stored.
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

template <bool TMA>
__global__ void __launch_bounds__(THREADS)
    gemm_ex19(GemmArgs<float> p, const __grid_constant__ TensorMap map_c) {
  const int tiles_n = cdiv(p.N, BN);
  const int bm = blockIdx.x / tiles_n, bn = blockIdx.x % tiles_n;
  const int tm = threadIdx.y, tn = threadIdx.x, tid = tm * BN + tn;

  const float* gA = p.A + bm * BM * p.lda;
  const float* gB = p.B + bn * BN;
  alignas(16) __shared__ float sA[BM][BK], sB[BK][BN];
  auto* sC = static_cast<float*>(dynamic_shared());  // [BM][BN]

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
    for (int i = 0; i < TM; ++i) sC[(tm * TM + i) * BN + tn] = p.epilogue.alpha * acc[i];
    __syncthreads();
    if (tid == 0) {
      tma_store(map_c, bm * BM, bn * BN, sC);
      tma_store_commit();
      tma_store_wait_read<0>();
    }
  } else {
    for (int i = 0; i < TM; ++i) store(p, bm * BM + tm * TM + i, bn * BN + tn, acc[i]);
  }
}

// TMA stores whole groups of 16 bytes, and never reads C.
void launch(const GemmArgs<float>& p, Stream stream) {
  const int64_t tiles = int64_t{cdiv(p.M, BM)} * cdiv(p.N, BN);
  const dim3 block(BN, BM / TM);
  const size_t smem = BM * BN * sizeof(float);
  if (p.epilogue.beta == 0 && tma_can_address(p.C, p.ldc) && p.N % 4 == 0)
    gemm::launch(gemm_ex19<true>, tiles, block, {.smem = smem}, stream, p,
                 tensor_map(p.C, p.M, p.N, p.ldc, BM, BN, Swizzle::none));
  else
    gemm::launch(gemm_ex19<false>, tiles, block, {.smem = smem}, stream, p, TensorMap{});
}

const Exercise exercise(launch);

}  // namespace
