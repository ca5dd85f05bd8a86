// v17t TMA: one thread requests a whole k-tile, and an mbarrier tells when its bytes have come.
//
// before: In v17 every thread computes addresses and masks, and issues cp.async for 16 bytes at a
//         time. A warp waits for its own copies, and a barrier of all joins the warps.
// idea:   A tensor map describes the matrix once, on the host. Then one thread asks TMA for a box
//         at (row, column). TMA computes the addresses, fills what lies outside with zeros, and
//         swizzles the box on its way. An mbarrier counts the arriving bytes.
// watch:  No thread loads from global memory. Between two k-tiles one thread issues four loads.
//         There is one buffer, so loads and products take turns in a CTA.
// needs:  It needs sm_90. Operands with rows that TMA cannot address are copied first.
#include "device/dynamic_shared.cuh"
#include "device/epilogue.cuh"
#include "device/fragments.cuh"
#include "device/mma.cuh"
#include "device/ptx/ldmatrix.cuh"
#include "device/ptx/mbarrier.cuh"
#include "device/ptx/tma.cuh"
#include "device/scheduler.cuh"
#include "device/tensor_map.h"
#include "device/tma_operands.cuh"
#include "rung.h"

namespace {
using namespace gemm;

constexpr int BM = 128, BN = 128, BK = 64;           // CTA tile
constexpr int WM = 64, WN = 32;                      // warp tile
constexpr int MMA_M = 16, MMA_N = 8, MMA_K = 16;     // one mma.sync
constexpr int GROUP_M = 16;                          // rows of tiles that are worked on together
constexpr int THREADS = (BM / WM) * (BN / WN) * 32;  // 2 x 4 warps
constexpr int PANEL = 64;  // rows of a panel, and elements of a row: 128 bytes, the swizzle's span

// [region idea]
// The tensor map of a rows x cols matrix, row-major, in boxes of one panel.
template <class T>
TensorMap tensor_map(const T* base, int64_t rows, int64_t cols, int64_t ld) {
  return encode_tensor_map<T>({
      .base = base,
      .sizes = {cols, rows},                 // the index that runs along memory is first
      .row_bytes = ld * int64_t{sizeof(T)},  // from row to row
      .box = {PANEL, PANEL},                 // what one instruction copies: 64 x 64
      .swizzle = Swizzle::b128,              // chunk c of row r goes to chunk c ^ r % 8
      .l2_promotion = 256,                   // L2 fetches 256 bytes from memory together
  });
}

// A tile of MN rows of A, or columns of B, times BK: panels that are one swizzle span wide.
template <class T, int MN, Major MAJOR>
struct OperandTile {
  static constexpr int PANELS = MN / PANEL;
  // K-major: (PANELS, 64 of MN, 64 of K); MN-major: (PANELS, 64 of K, 64 of MN)
  using Panels = T[PANELS][PANEL][PANEL];

  static TensorMap map(const T* base, int mn, int k, int64_t ld) {
    return MAJOR == Major::K ? tensor_map(base, mn, k, ld) : tensor_map(base, k, mn, ld);
  }
  // By one thread: the tile at (mn, k), one box per panel.
  static GEMM_DEVICE void load(Panels& tile, const TensorMap& map, int mn, int k, uint64_t* full) {
#pragma unroll
    for (int i = 0; i < PANELS; ++i)
      if constexpr (MAJOR == Major::K)
        tma_load(tile[i], map, mn + i * PANEL, k, full);
      else
        tma_load(tile[i], map, k, mn + i * PANEL, full);
  }
};
// [/region idea]

template <class T>
struct Shared {                   // every panel starts at a multiple of 1024 bytes
  T A[BM / PANEL][PANEL][PANEL];  // (BM / 64, m, k) or, transposed, (BM / 64, k, m)
  T B[BN / PANEL][PANEL][PANEL];  // (BN / 64, k, n) or, transposed, (BN / 64, n, k)
  uint64_t full;                  // the mbarrier
};

// v15's fragments from a panel. A transposed operand's panel has rows and columns exchanged, so
// ldmatrix transposes where it did not, and does not where it did.
template <Major MAJOR, class T>
GEMM_DEVICE void fragment_a(uint32_t (&a)[4], T (&panel)[PANEL][PANEL], int m, int k) {
  const int lane = threadIdx.x % 32;
  if constexpr (MAJOR == Major::K)
    load_a(a, panel, m, k);
  else
    ldmatrix_x4_trans(a, swizzled(panel, k + lane / 16 * 8 + lane % 8, m + lane / 8 % 2 * 8));
}
template <Major MAJOR, class T>
GEMM_DEVICE void fragment_b(uint32_t (&b)[2][2], T (&panel)[PANEL][PANEL], int k, int n) {
  const int lane = threadIdx.x % 32;
  if constexpr (MAJOR == Major::MN) {
    load_b(b, panel, k, n);
  } else {
    uint32_t r[4];
    ldmatrix_x4(r, swizzled(panel, n + lane / 16 * 8 + lane % 8, k + lane / 8 % 2 * 8));
    b[0][0] = r[0];
    b[0][1] = r[1];
    b[1][0] = r[2];
    b[1][1] = r[3];
  }
}

template <class T, Major A_MAJOR, Major B_MAJOR>
__global__ void __launch_bounds__(THREADS, 2)
    gemm_v17t(GemmArgs<T> p, bool aligned_c, const __grid_constant__ TensorMap map_a,
              const __grid_constant__ TensorMap map_b) {
  // Where am I? Lane = 4 * g + t in every accumulator.
  const auto [bm, bn] = grouped_tile<GROUP_M>(blockIdx.x, cdiv(p.M, BM), cdiv(p.N, BN));
  const int tid = threadIdx.x, warp = tid / 32, g = tid % 32 / 4, t = tid % 4;
  const int wm = warp / (BN / WN) * WM, wn = warp % (BN / WN) * WN, k_tiles = cdiv(p.K, BK);
  auto& s = *static_cast<Shared<T>*>(dynamic_shared());
  if (tid == 0) {
    mbarrier_init(&s.full, 1);  // one arrival per phase, thread 0's
    fence_mbarrier_init();
  }
  __syncthreads();

  // [region loop]
  float acc[WM / MMA_M][WN / MMA_N][4] = {};
  for (int k_tile = 0; k_tile < k_tiles; ++k_tile) {
    if (tid == 0) {
      mbarrier_arrive_expect_tx(&s.full, sizeof s.A + sizeof s.B);
      OperandTile<T, BM, A_MAJOR>::load(s.A, map_a, bm * BM, k_tile * BK, &s.full);
      OperandTile<T, BN, B_MAJOR>::load(s.B, map_b, bn * BN, k_tile * BK, &s.full);
    }
    mbarrier_wait(&s.full, k_tile % 2);  // the parity of phase k_tile
#pragma unroll
    for (int k = 0; k < BK; k += MMA_K) {
      uint32_t rA[WM / MMA_M][4], rB[WN / MMA_N / 2][2][2];
#pragma unroll
      for (int i = 0; i < WM / MMA_M; ++i)
        fragment_a<A_MAJOR>(rA[i], s.A[wm / PANEL], wm % PANEL + i * MMA_M, k);
#pragma unroll
      for (int j = 0; j < WN / MMA_N / 2; ++j)
        fragment_b<B_MAJOR>(rB[j], s.B[wn / PANEL], k, wn % PANEL + j * 2 * MMA_N);
#pragma unroll
      for (int i = 0; i < WM / MMA_M; ++i)
#pragma unroll
        for (int j = 0; j < WN / MMA_N; ++j) mma<T>(acc[i][j], rA[i], rB[j / 2][j % 2]);
    }
    __syncthreads();  // all warps have read the tile: TMA may write over it
  }
  // [/region loop]

  // Epilogue: lane (g, t) holds columns 2t and 2t + 1 of rows g and g + 8.
#pragma unroll
  for (int i = 0; i < WM / MMA_M; ++i)
#pragma unroll
    for (int j = 0; j < WN / MMA_N; ++j)
#pragma unroll
      for (int r = 0; r < 4; r += 2) {
        const int m = bm * BM + wm + i * MMA_M + g + r * 4, n = bn * BN + wn + j * MMA_N + 2 * t;
        if (aligned_c)
          store_pair<true>(p, m, n, acc[i][j][r], acc[i][j][r + 1]);
        else
          store_pair<false>(p, m, n, acc[i][j][r], acc[i][j][r + 1]);
      }
}

template <class T>
void launch(const GemmArgs<T>& p, Stream stream) {
  const int64_t grid = int64_t{cdiv(p.M, BM)} * cdiv(p.N, BN);
  const TmaOperands<T> in(p, stream);
  with_majors(p, [&](auto a, auto b) {
    gemm::launch(gemm_v17t<T, a(), b()>, grid, dim3(THREADS), {.smem = sizeof(Shared<T>)}, stream,
                 p, all_aligned(p), OperandTile<T, BM, a()>::map(in.A.data, p.M, p.K, in.A.ld),
                 OperandTile<T, BN, b()>::map(in.B.data, p.N, p.K, in.B.ld));
  });
}

const Registration rung({.prev = "v17",
                         .idea = "TMA: one thread loads a k-tile, an mbarrier counts its bytes",
                         .needs = {.sm = 90, .transposed = true}},
                        {f16(launch<half>)});

}  // namespace
