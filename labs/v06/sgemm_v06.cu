// v6 bank conflicts: A transposed in shared memory, thread tiles interleaved.
//
// C = alpha * A * B + beta * C, row-major, any shape. In words: kernels/v06_bank_conflicts.md.

constexpr int BM = 128, BN = 128, BK = 8;       // block tile, and depth of a k-tile
constexpr int TM = 8, TN = 8;                   // thread tile
constexpr int THREADS = (BM / TM) * (BN / TN);  // 16 x 16

// Four neighbours of a row, zero outside of the matrix. WIDE: rows are whole aligned groups of
// four, each inside or outside, and one 128-bit load does it.
template <bool WIDE>
__device__ float4 load4(const float* g, int ld, int row, int col, int rows, int cols) {
  float4 v = {0, 0, 0, 0};
  if (row >= rows) return v;
  const float* from = g + (size_t)row * ld + col;
  if (WIDE) return col < cols ? *(const float4*)from : v;
  if (col < cols) v.x = from[0];
  if (col + 1 < cols) v.y = from[1];
  if (col + 2 < cols) v.z = from[2];
  if (col + 3 < cols) v.w = from[3];
  return v;
}

// Copies a tile whose first element is *g; `rows` and `cols` of the matrix are left from there.
template <bool WIDE, int ROWS, int COLS>
__device__ void copy_tile(float (&s)[ROWS][COLS], const float* g, int ld, int rows, int cols,
                          int tid) {
#pragma unroll
  for (int i = tid * 4; i < ROWS * COLS; i += THREADS * 4)
    *(float4*)&s[i / COLS][i % COLS] = load4<WIDE>(g, ld, i / COLS, i % COLS, rows, cols);
}

// Copies a tile along its rows, and stores it transposed: s[col][row].
template <bool WIDE, int COLS, int STRIDE>
__device__ void copy_transposed(float (&s)[COLS][STRIDE], const float* g, int ld, int rows,
                                int cols, int tid) {
  static_assert(BM * COLS == THREADS * 4, "every thread copies one group");
  const int row = tid * 4 / COLS, col = tid * 4 % COLS;
  const float4 v = load4<WIDE>(g, ld, row, col, rows, cols);
  s[col][row] = v.x, s[col + 1][row] = v.y, s[col + 2][row] = v.z, s[col + 3][row] = v.w;
}

// Row (or column) i of thread tile t: neighbouring threads take neighbouring rows.
__device__ int tile_row(int t, int i) { return i * (BM / TM) + t; }
static_assert(BM == BN && TM == TN, "tile_row serves rows and columns");

// C is not read where beta is 0: it may hold NaN.
__device__ float result(float sum, float alpha, float beta, const float* c) {
  return beta == 0 ? alpha * sum : alpha * sum + beta * *c;
}

template <bool WIDE>
__global__ void __launch_bounds__(THREADS, 2)
    no_conflicts(int M, int N, int K, float alpha, const float* A, int lda, const float* B, int ldb,
                 float beta, float* C, int ldc) {
  const int tiles_n = (N + BN - 1) / BN;
  const int m0 = blockIdx.x / tiles_n * BM, n0 = blockIdx.x % tiles_n * BN;
  const int tm = threadIdx.y, tn = threadIdx.x;
  const int tid = tm * (BN / TN) + tn;
  alignas(16) __shared__ float sA[BK][BM + 4];  // rows begin 4 banks apart
  alignas(16) __shared__ float sB[BK][BN];

  float acc[TM][TN] = {};
  for (int k0 = 0; k0 < K; k0 += BK) {
    copy_transposed<WIDE>(sA, A + k0 + (size_t)m0 * lda, lda, M - m0, K - k0, tid);
    copy_tile<WIDE>(sB, B + n0 + (size_t)k0 * ldb, ldb, K - k0, N - n0, tid);
    __syncthreads();
#pragma unroll
    for (int k = 0; k < BK; ++k)
#pragma unroll
      for (int i = 0; i < TM; ++i)
#pragma unroll
        for (int j = 0; j < TN; ++j) acc[i][j] += sA[k][tile_row(tm, i)] * sB[k][tile_row(tn, j)];
    __syncthreads();
  }

#pragma unroll
  for (int i = 0; i < TM; ++i) {
    const int row = m0 + tile_row(tm, i);
    if (row >= M) break;
#pragma unroll
    for (int j = 0; j < TN; ++j) {
      const int col = n0 + tile_row(tn, j);
      float* const c = &C[(size_t)row * ldc + col];
      if (col < N) *c = result(acc[i][j], alpha, beta, c);
    }
  }
}

void gemm(int M, int N, int K, float alpha, const float* A, int lda, const float* B, int ldb,
          float beta, float* C, int ldc, cudaStream_t stream) {
  const int blocks = ((M + BM - 1) / BM) * ((N + BN - 1) / BN);
  const bool wide = (N | K | lda | ldb | ldc) % 4 == 0 &&
                    ((size_t)A | (size_t)B | (size_t)C) % sizeof(float4) == 0;
  const auto kernel = wide ? no_conflicts<true> : no_conflicts<false>;
  kernel<<<blocks, dim3(BN / TN, BM / TM), 0, stream>>>(M, N, K, alpha, A, lda, B, ldb, beta, C,
                                                        ldc);
}

#include "../main.h"
