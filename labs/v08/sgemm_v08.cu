// v8 double buffering: the next k-tile is fetched while this one is multiplied.
//
// C = alpha * A * B + beta * C, row-major, any shape. In words: kernels/v08_double_buffer.md.

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

// Row (or column) i of thread tile t: neighbouring threads take neighbouring groups of four.
__device__ int tile_row(int t, int i) { return i / 4 * (BM / TM * 4) + t * 4 + i % 4; }
static_assert(BM == BN && TM == TN, "tile_row serves rows and columns");

// A thread's eight values of one row of shared memory, by two 128-bit loads.
__device__ void load_fragment(float (&r)[8], const float* row, int t) {
#pragma unroll
  for (int i = 0; i < 8; i += 4) *(float4*)&r[i] = *(const float4*)&row[tile_row(t, i)];
}

// C is not read where beta is 0: it may hold NaN.
__device__ float result(float sum, float alpha, float beta, const float* c) {
  return beta == 0 ? alpha * sum : alpha * sum + beta * *c;
}

// Four neighbours of a row of C, of which `left` are inside.
template <bool WIDE>
__device__ void store4(float* c, int left, const float* sum, float alpha, float beta) {
  if (left <= 0) return;
  if (WIDE) {
    const float4 was = beta == 0 ? float4{0, 0, 0, 0} : *(float4*)c;
    *(float4*)c = float4{result(sum[0], alpha, beta, &was.x), result(sum[1], alpha, beta, &was.y),
                         result(sum[2], alpha, beta, &was.z), result(sum[3], alpha, beta, &was.w)};
  } else {
    for (int e = 0; e < 4 && e < left; ++e) c[e] = result(sum[e], alpha, beta, &c[e]);
  }
}

template <bool WIDE>
__global__ void __launch_bounds__(THREADS, 2)
    double_buffer(int M, int N, int K, float alpha, const float* A, int lda, const float* B,
                  int ldb, float beta, float* C, int ldc) {
  const int tiles_n = (N + BN - 1) / BN;
  const int m0 = blockIdx.x / tiles_n * BM, n0 = blockIdx.x % tiles_n * BN;
  const int tm = threadIdx.y, tn = threadIdx.x;
  const int tid = tm * (BN / TN) + tn;
  alignas(16) __shared__ float sA[2][BK][BM + 4];  // rows begin 4 banks apart
  alignas(16) __shared__ float sB[2][BK][BN];
  static_assert(BM * BK == THREADS * 4 && BK * BN == THREADS * 4, "a group of each per thread");

  const int rowA = tid * 4 / BK, colA = tid * 4 % BK, rowB = tid * 4 / BN, colB = tid * 4 % BN;
  float4 nextA, nextB;  // the k-tile on its way
  const auto fetch = [&](int k0) {
    nextA = load4<WIDE>(A, lda, m0 + rowA, k0 + colA, M, K);
    nextB = load4<WIDE>(B, ldb, k0 + rowB, n0 + colB, K, N);
  };
  const auto commit = [&](int stage) {
    sA[stage][colA][rowA] = nextA.x, sA[stage][colA + 1][rowA] = nextA.y;
    sA[stage][colA + 2][rowA] = nextA.z, sA[stage][colA + 3][rowA] = nextA.w;
    *(float4*)&sB[stage][rowB][colB] = nextB;
  };

  float acc[TM][TN] = {};
  fetch(0);
  commit(0);
  __syncthreads();
  for (int k0 = 0, stage = 0; k0 < K; k0 += BK, stage ^= 1) {
    const bool more = k0 + BK < K;
    if (more) fetch(k0 + BK);
#pragma unroll
    for (int k = 0; k < BK; ++k) {
      alignas(16) float rA[TM], rB[TN];
      load_fragment(rA, sA[stage][k], tm);
      load_fragment(rB, sB[stage][k], tn);
#pragma unroll
      for (int j = 0; j < TN; ++j)
#pragma unroll
        for (int i = 0; i < TM; ++i) acc[i][j] += rA[i] * rB[j];
    }
    if (more) commit(stage ^ 1);
    __syncthreads();  // after it the next k-tile is there, and nobody reads this one any more
  }

#pragma unroll
  for (int i = 0; i < TM; ++i)
#pragma unroll
    for (int j = 0; j < TN; j += 4) {
      const int row = m0 + tile_row(tm, i), col = n0 + tile_row(tn, j);
      if (row < M) store4<WIDE>(&C[(size_t)row * ldc + col], N - col, &acc[i][j], alpha, beta);
    }
}

void gemm(int M, int N, int K, float alpha, const float* A, int lda, const float* B, int ldb,
          float beta, float* C, int ldc, cudaStream_t stream) {
  const int blocks = ((M + BM - 1) / BM) * ((N + BN - 1) / BN);
  const bool wide = (N | K | lda | ldb | ldc) % 4 == 0 &&
                    ((size_t)A | (size_t)B | (size_t)C) % sizeof(float4) == 0;
  const auto kernel = wide ? double_buffer<true> : double_buffer<false>;
  kernel<<<blocks, dim3(BN / TN, BM / TM), 0, stream>>>(M, N, K, alpha, A, lda, B, ldb, beta, C,
                                                        ldc);
}

#include "../main.h"
