// Small GEMMs that are wrong in exactly one way each; see planted.h. `// [name]` marks the lines
// that must be named when the bug `name` is found.
#include "device/ptx/cp_async.cuh"
#include "device/ptx/ldmatrix.cuh"
#include "device/repack.cuh"
#include "planted.h"
#include "registration.h"
#include "rung.h"

namespace {
using namespace gemm;

constexpr int TILE = 16;

enum Bug {
  NONE,
  MISSING_FIRST_BARRIER,
  MISSING_SECOND_BARRIER,
  READS_PAST_THE_ROW,
  READS_FAR_AWAY,
  EDGE_NOT_ZEROED,
  DIVERGENT_BARRIER,
  UNWRITTEN_EDGE,
  WRITES_TWICE,
  READS_OLD_C,
  WRITES_TO_A,
  MISALIGNED,
};

// Block tiles of 16 x 16, one thread an element.
template <int BUG>
__global__ void gemm_tiles(GemmArgs<float> p) {
  const int tiles_n = cdiv(p.N, TILE);
  const int bm = blockIdx.x / tiles_n, bn = blockIdx.x % tiles_n;
  const int tm = threadIdx.y, tn = threadIdx.x;
  const int m = bm * TILE + tm, n = bn * TILE + tn;
  alignas(16) __shared__ float sA[TILE][TILE], sB[TILE][TILE];
  float acc = 0;
  for (int k0 = 0; k0 < p.K; k0 += TILE) {
    const bool in_a = m < p.M && k0 + tn < p.K, in_b = k0 + tm < p.K && n < p.N;
    if (BUG == READS_PAST_THE_ROW)
      sA[tm][tn] = m < p.M ? p.A[m * p.lda + k0 + tn] : 0;  // [reads_past_the_row]
    else if (BUG == READS_FAR_AWAY)
      sA[tm][tn] = p.A[(int64_t{1} << 32) + tn];  // [reads_far_away]
    else if (BUG != EDGE_NOT_ZEROED || in_a)
      sA[tm][tn] = in_a ? p.A[m * p.lda + k0 + tn] : 0;        // [missing_second_barrier]
    sB[tm][tn] = in_b ? p.B[(k0 + tm) * p.ldb + n] : 0;        // [missing_first_barrier]
    if (BUG == DIVERGENT_BARRIER && tn == 3) __syncthreads();  // [divergent_barrier]
    if (BUG != MISSING_FIRST_BARRIER) __syncthreads();         // [divergent_barrier]
    for (int k = 0; k < TILE; ++k)
      acc += sA[tm][k]     // [missing_second_barrier] [edge_not_zeroed]
             * sB[k][tn];  // [missing_first_barrier]
    if (BUG != MISSING_SECOND_BARRIER) __syncthreads();
  }
  if (m >= p.M || n >= p.N) return;
  if (BUG == UNWRITTEN_EDGE && n == p.N - 1) return;
  float* const c = p.C + m * p.ldc + n;
  const float old =
      p.epilogue.beta != 0 || BUG == READS_OLD_C ? p.epilogue.beta * *c : 0;  // [reads_old_c]
  *c = p.epilogue.alpha * acc + old;                                          // [writes_twice]
  if (BUG == WRITES_TWICE && tn == 0 && n > 0) c[-1] = 0;                     // [writes_twice]
  const auto* odd = reinterpret_cast<const float*>(reinterpret_cast<uintptr_t>(p.A) + 2);
  if (BUG == MISALIGNED && tm == 0 && tn == 1) sA[0][0] = *odd;              // [misaligned]
  if (BUG == WRITES_TO_A) const_cast<float*>(p.A)[m * p.lda + m % p.K] = 0;  // [writes_to_a]
}

// Two buffers of a k-tile of 16 for a row of A, and one barrier a k-tile.
template <bool BARRIER>
__global__ void gemm_two_buffers(GemmArgs<float> p) {
  const int tiles_n = cdiv(p.N, 64);
  const int m = blockIdx.x / tiles_n, n = blockIdx.x % tiles_n * 64 + threadIdx.x;
  __shared__ float sA[2][TILE];
  const auto fetch = [&](int stage, int k0) {
    if (threadIdx.x < TILE)
      sA[stage][threadIdx.x] =  // [missing_pipeline_barrier]
          k0 + int(threadIdx.x) < p.K ? p.A[m * p.lda + k0 + threadIdx.x] : 0;
  };
  float acc = 0;
  fetch(0, 0);
  __syncthreads();
  for (int k0 = 0, stage = 0; k0 < p.K; k0 += TILE, stage ^= 1) {
    fetch(stage ^ 1, k0 + TILE);
    for (int k = 0; k < std::min(TILE, p.K - k0); ++k)
      if (n < p.N) acc += sA[stage][k] * p.B[(k0 + k) * p.ldb + n];  // [missing_pipeline_barrier]
    if (BARRIER) __syncthreads();
  }
  if (n < p.N)
    p.C[m * p.ldc + n] =
        p.epilogue.alpha * acc + (p.epilogue.beta == 0 ? 0 : p.epilogue.beta * p.C[m * p.ldc + n]);
}

// K-tiles of 4 floats of a row of A through cp.async.
enum Async { RIGHT, NO_WAIT, NO_BARRIER };
template <int BUG>
__global__ void gemm_async(GemmArgs<float> p) {
  const int tiles_n = cdiv(p.N, 32);
  const int m = blockIdx.x / tiles_n, n = blockIdx.x % tiles_n * 32 + threadIdx.x;
  alignas(16) __shared__ float sA[4];
  float acc = 0;
  for (int k0 = 0; k0 < p.K; k0 += 4) {
    if (threadIdx.x == 31)
      cp_async_16(sA, p.A + m * p.lda + k0,  // [missing_cp_async_wait] [copied_while_read]
                  std::min(4, p.K - k0) * 4);
    cp_async_commit();
    if (BUG != NO_WAIT) cp_async_wait<0>();
    __syncthreads();
    for (int k = 0; k < std::min(4, p.K - k0); ++k)
      acc += sA[k] *  // [missing_cp_async_wait] [copied_while_read]
             (n < p.N ? p.B[(k0 + k) * p.ldb + n] : 0);
    if (BUG != NO_BARRIER) __syncthreads();
  }
  if (n < p.N)
    p.C[m * p.ldc + n] =
        p.epilogue.alpha * acc + (p.epilogue.beta == 0 ? 0 : p.epilogue.beta * p.C[m * p.ldc + n]);
}

// A warp computes one element of C: partial sums go through shared memory.
enum Partial { ORDERED, NO_SYNCWARP, ONE_PLACE, ATOMIC };
template <int BUG>
__global__ void gemm_partial_sums(GemmArgs<float> p) {
  const int m = blockIdx.x / p.N, n = blockIdx.x % p.N, lane = threadIdx.x;
  __shared__ float sums[32];
  float acc = 0;
  for (int k = lane; k < p.K; k += 32) acc += p.A[m * p.lda + k] * p.B[k * p.ldb + n];
  if (BUG == ATOMIC) {
    sums[lane] = 0;
    __syncwarp();
    atomicAdd(&sums[1], lane == 0 ? 0 : acc);
  } else {
    sums[BUG == ONE_PLACE ? 0 : lane] = acc;  // [missing_syncwarp] [all_write_one_place]
  }
  if (BUG != NO_SYNCWARP) __syncwarp();
  if (lane != 0) return;
  if (BUG == ONE_PLACE)
    acc = sums[0];
  else
    for (int l = 1; l < 32; ++l) acc += sums[l];  // [missing_syncwarp]
  float* const c = p.C + m * p.ldc + n;
  *c = p.epilogue.alpha * acc + (p.epilogue.beta == 0 ? 0 : p.epilogue.beta * *c);
}

// Two launches: the first copies A to scratch memory, which the second multiplies.
enum Scratch { WHOLE, NOT_ALL_WRITTEN, PAST_THE_END };
template <int BUG>
__global__ void copy_a(GemmArgs<float> p, float* copy) {
  const int k = threadIdx.x;
  if (BUG == NOT_ALL_WRITTEN && k == p.K - 1) return;
  copy[blockIdx.x * p.K + k] = p.A[blockIdx.x * p.lda + k];
}
template <int BUG>
__global__ void gemm_scratch(GemmArgs<float> p, const float* a) {
  const int m = blockIdx.x, n = threadIdx.x;
  float acc = 0;
  for (int k = 0; k < p.K + (BUG == PAST_THE_END); ++k)
    acc += a[m * p.K + k] *  // [reads_unwritten_workspace] [past_the_workspace]
           (k < p.K ? p.B[k * p.ldb + n] : 0);
  p.C[m * p.ldc + n] =
      p.epilogue.alpha * acc + (p.epilogue.beta == 0 ? 0 : p.epilogue.beta * p.C[m * p.ldc + n]);
}

template <int BUG>
void launch_scratch(const GemmArgs<float>& p, Stream stream) {
  const Workspace a(sizeof(float) * p.M * p.K, stream);
  gemm::launch(copy_a<BUG>, p.M, dim3(p.K), {}, stream, p, a.as<float>());
  gemm::launch(gemm_scratch<BUG>, p.M, dim3(p.N), {}, stream, p, a.as<float>());
}
// A without its first column; with PAST columns more than it has.
template <int PAST>
void launch_repacked(const GemmArgs<float>& p, Stream stream) {
  const RepackedPair<float> in({p.A + 1, p.M, p.K - 1 + PAST, p.lda}, {p.B, p.K - 1, p.N, p.ldb},
                               stream);
  GemmArgs<float> q = p;
  q.A = in.A.data, q.lda = in.A.ld, q.B = in.B.data, q.ldb = in.B.ld, q.K = p.K - 1;
  gemm::launch(gemm_tiles<NONE>, int64_t{cdiv(p.M, TILE)} * cdiv(p.N, TILE), dim3(TILE, TILE), {},
               stream, q);
}
template <int BUG>
void launch_tiles(const GemmArgs<float>& p, Stream stream) {
  const int64_t grid = int64_t{cdiv(p.M, TILE)} * cdiv(p.N, TILE);
  gemm::launch(gemm_tiles<BUG>, grid, dim3(TILE, TILE), {}, stream, p);
}
template <bool BARRIER>
void launch_two_buffers(const GemmArgs<float>& p, Stream stream) {
  gemm::launch(gemm_two_buffers<BARRIER>, int64_t{p.M} * cdiv(p.N, 64), dim3(64), {}, stream, p);
}
template <int BUG>
void launch_async(const GemmArgs<float>& p, Stream stream) {
  gemm::launch(gemm_async<BUG>, int64_t{p.M} * cdiv(p.N, 32), dim3(32), {}, stream, p);
}
template <int BUG>
void launch_partial_sums(const GemmArgs<float>& p, Stream stream) {
  gemm::launch(gemm_partial_sums<BUG>, int64_t{p.M} * p.N, dim3(32), {}, stream, p);
}

Rung rung(const char* name, LaunchFn<float> fn) {
  Entry e = f32(fn);
  Rung r;
  r.id = r.name = name;
  r.dtype = DType::f32;
  r.backend = BACKEND;
  r.launch = calls_of(e).launch;
  return r;
}

template <int STRIDE>
__global__ void ldmatrix_rows() {
  alignas(16) __shared__ char s[32 * STRIDE];
  for (int i = threadIdx.x; i < 32 * STRIDE; i += 32) s[i] = char(i);
  __syncwarp();
  uint32_t r[4];
  ldmatrix_x4(r, &s[threadIdx.x * STRIDE]);
}

}  // namespace

namespace gemm {

std::vector<Rung> planted_twins() {
  return {rung("tiles", launch_tiles<NONE>),
          rung("two_buffers", launch_two_buffers<true>),
          rung("async", launch_async<RIGHT>),
          rung("partial_sums", launch_partial_sums<ORDERED>),
          rung("scratch", launch_scratch<WHOLE>),
          rung("repacked", launch_repacked<0>),
          rung("atomic_sums", launch_partial_sums<ATOMIC>)};
}

std::vector<Planted> planted_bugs() {
  return {
      {rung("missing_first_barrier", launch_tiles<MISSING_FIRST_BARRIER>), "race", "reads"},
      {rung("missing_second_barrier", launch_tiles<MISSING_SECOND_BARRIER>), "race", "writes"},
      {rung("missing_pipeline_barrier", launch_two_buffers<false>), "race", "writes"},
      {rung("missing_syncwarp", launch_partial_sums<NO_SYNCWARP>), "race", "reads"},
      {rung("all_write_one_place", launch_partial_sums<ONE_PLACE>), "race", "writes"},
      {rung("missing_cp_async_wait", launch_async<NO_WAIT>), "missing cp.async wait", "reads"},
      {rung("copied_while_read", launch_async<NO_BARRIER>), "race", "writes"},
      {rung("reads_past_the_row", launch_tiles<READS_PAST_THE_ROW>), "out of bounds",
       "4 bytes at A[0][20], but its rows have 20 columns"},
      {rung("repacks_past_the_row", launch_repacked<1>), "out of bounds", "repack.cu:"},
      {rung("reads_far_away", launch_tiles<READS_FAR_AWAY>), "out of bounds", "past the end of "},
      {rung("edge_not_zeroed", launch_tiles<EDGE_NOT_ZEROED>), "uninitialised read",
       "of sA, which nobody has written"},
      {rung("divergent_barrier", launch_tiles<DIVERGENT_BARRIER>), "failed",
       "divergent __syncthreads"},
      {rung("unwritten_edge", launch_tiles<UNWRITTEN_EDGE>), "unwritten",
       "no thread writes C[0][35]"},
      {rung("writes_twice", launch_tiles<WRITES_TWICE>), "written twice", "C[0][15]"},
      {rung("reads_old_c", launch_tiles<READS_OLD_C>), "forbidden access", "reads C[0][0]"},
      {rung("reads_unwritten_workspace", launch_scratch<NOT_ALL_WRITTEN>), "uninitialised read",
       "reads 4 bytes from byte 76 of workspace, which nobody has written"},
      {rung("past_the_workspace", launch_scratch<PAST_THE_END>), "out of bounds",
       "4 bytes, 0 bytes past the end of workspace"},
      {rung("misaligned", launch_tiles<MISALIGNED>), "misaligned access",
       "reads 4 bytes at 2 bytes past a multiple of 4"},
      {rung("writes_to_a", launch_tiles<WRITES_TO_A>), "forbidden access", "writes A[0][0]"},
  };
}

void launch_ldmatrix_64_bytes() { gemm::launch(ldmatrix_rows<64>, 1, dim3(32), {}, nullptr); }
void launch_ldmatrix_80_bytes() { gemm::launch(ldmatrix_rows<80>, 1, dim3(32), {}, nullptr); }

}  // namespace gemm
