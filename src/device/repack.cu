// The kernel that copies operands with unaligned rows (repack.cuh). All rungs share it.
#include "device/current_device.h"
#include "device/launch.h"
#include "device/ptx/grid.cuh"
#include "device/repack.cuh"

GEMM_BUILD_NAMESPACE_BEGIN
namespace {

constexpr int THREADS = 256, ROWS = THREADS / 32;  // a warp, a row
constexpr int UNROLL = 8;                          // loads that each thread has in flight
constexpr int WORDS = 32 * UNROLL;                 // of a row, a CTA

// Copies two matrices, the first by the first `blocks_a` CTAs. It goes word by word, so that a warp
// reads and writes 128 bytes at once wherever the rows begin. Narrow elements that straddle two words
// are cut out of both; the second word is the next lane's first, and comes from L1.
template <class T>
__global__ void __launch_bounds__(THREADS)
    repack_kernel(RepackJob<T> a, RepackJob<T> b, unsigned blocks_a) {
  grid_launch_dependents();  // the kernel that reads the copies begins meanwhile, and waits
  grid_dependency_wait();
  const auto [from, ld, rows, cols, to, to_words] = blockIdx.x < blocks_a ? a : b;
  const int block = blockIdx.x < blocks_a ? blockIdx.x : blockIdx.x - blocks_a;
  const int blocks_n = cdiv(to_words, WORDS);
  const int m = block / blocks_n * ROWS + threadIdx.x / 32;
  const int k0 = block % blocks_n * WORDS + threadIdx.x % 32;
  if (m >= rows) return;
  const T* row = from + m * ld;
  // Words lie at multiples of 4 bytes in memory: from the row's element -skew on.
  const int skew = reinterpret_cast<uintptr_t>(row) % 4 / sizeof(T);  // 0 to 3 bytes
  constexpr int PACK = 4 / sizeof(T), STEP = 32 * PACK;               // elements
  constexpr auto CUT = [](int skew) { return sizeof(T) == 2 ? 16 : skew * 8 * int{sizeof(T)}; };
  const int first = k0 * PACK - skew;
  uint32_t lower[UNROLL], upper[UNROLL] = {};
  if (first >= 0 && first <= cols - UNROLL * STEP) {  // as a rule; all loads at once
    const uint32_t* const words = reinterpret_cast<const uint32_t*>(row + first);
#pragma unroll
    for (int i = 0; i < UNROLL; ++i) {
      lower[i] = words[i * 32];
      if (skew != 0) upper[i] = words[i * 32 + 1];
    }
  } else {
#pragma unroll
    for (int i = 0; i < UNROLL; ++i) {
      lower[i] = load_edge_word(row, first + i * STEP, cols);
      if (skew != 0) upper[i] = load_edge_word(row, first + i * STEP + PACK, cols);
    }
  }
#pragma unroll
  for (int i = 0; i < UNROLL; ++i)
    if (k0 + i * 32 < to_words)
      to[int64_t{m} * to_words + k0 + i * 32] =
          skew == 0 ? lower[i] : lower[i] >> CUT(skew) | upper[i] << (32 - CUT(skew));
}

template <class T>
int64_t ctas_of(const RepackJob<T>& job) {
  return int64_t{cdiv(job.rows, ROWS)} * cdiv(job.to_words, WORDS);
}

}  // namespace

template <class T>
void repack(const RepackJob<T>& a, const RepackJob<T>& b, Stream stream) {
  gemm::launch(repack_kernel<T>, ctas_of(a) + ctas_of(b), dim3(THREADS), {.pdl = has_clusters()},
               stream, a, b, static_cast<unsigned>(ctas_of(a)));
}

template void repack(const RepackJob<float>&, const RepackJob<float>&, Stream);
template void repack(const RepackJob<half>&, const RepackJob<half>&, Stream);
template void repack(const RepackJob<bf16>&, const RepackJob<bf16>&, Stream);
template void repack(const RepackJob<f8e4m3>&, const RepackJob<f8e4m3>&, Stream);
template void repack(const RepackJob<f8e5m2>&, const RepackJob<f8e5m2>&, Stream);

GEMM_BUILD_NAMESPACE_END
