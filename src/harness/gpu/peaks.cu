// What the card can do when nothing but the arithmetic counts: the roof that a rung is measured
// against. Operands are random, because zeros draw less power and so run at higher clocks.
#include <cuda_fp16.h>

#include <algorithm>

#include "device/current_device.h"
#include "device/ptx/mma.cuh"
#include "device/ptx/tma.cuh"
#include "device/ptx/wgmma.cuh"
#include "device/wgmma_descriptor.cuh"
#include "harness/gpu/cuda_check.h"
#include "harness/gpu/gpu_device.h"
#include "harness/gpu/stream_timer.h"
#include "harness/nvtx.h"
#include "harness/timing.h"

namespace gemm {
namespace {

constexpr int THREADS = 256;

__device__ float random_float(int i) {
  return random_value(blockIdx.x, int64_t{i} * THREADS + threadIdx.x);
}

// 32 bits of multiplicands: four FP8, two halves or one float.
template <DType DTYPE>
__device__ uint32_t random_word(int i) {
  if constexpr (DTYPE == DType::f16) {
    const __half2 pair = __floats2half2_rn(random_float(2 * i), random_float(2 * i + 1));
    return reinterpret_cast<const uint32_t&>(pair);
  } else if constexpr (DTYPE == DType::e4m3) {
    uint32_t word = 0;
    for (int e = 0; e < 4; ++e) word = word << 8 | f8e4m3(random_float(4 * i + e)).__x;
    return word;
  } else {
    return cvt_rna_tf32(random_float(i));
  }
}

// Keeps the compiler from dropping a computation whose result nobody wants: it cannot know that the
// sum is never this number.
__device__ void keep(float sum, float* out) {
  if (sum == 1.2345e-30f) *out = sum;
}

// FFMA with two operands that every instruction shares: they stay in the operand reuse cache, so
// that each instruction reads one register. An outer product of registers, as in a GEMM, reads up
// to three from two banks, and reaches less: 50 of 64 TFLOPS on an H200 when the compiler's
// register allocation makes half of its reads collide. 64 independent chains a thread hide the
// latency.
constexpr int FFMA_CHAINS = 64;
constexpr int FFMA_ITERATIONS = 8192;
constexpr double FFMA_FLOPS = 2.0 * FFMA_CHAINS * FFMA_ITERATIONS * THREADS;  // a block

__global__ __launch_bounds__(THREADS, 2) void ffma_kernel(float* out) {
  const float a = random_float(0), b = random_float(1);
  float x[FFMA_CHAINS];
  for (int i = 0; i < FFMA_CHAINS; ++i) x[i] = random_float(2 + i);
#pragma unroll 4
  for (int iteration = 0; iteration < FFMA_ITERATIONS; ++iteration)
    for (float& chain : x) chain = fmaf(chain, a, b);
  float sum = 0;
  for (const float chain : x) sum += chain;
  keep(sum, out);
}

// mma.sync: each warp a 32 x 64 tile of accumulators, 16 independent instructions an iteration.
constexpr int MMA_M = 2, MMA_N = 8;
constexpr int MMA_ITERATIONS = 4096;
constexpr double mma_flops(DType dtype) {  // a block
  const int k = dtype == DType::f16 ? 16 : 8, warps = THREADS / 32;
  return 2.0 * 16 * 8 * k * MMA_M * MMA_N * MMA_ITERATIONS * warps;
}

template <DType DTYPE>
__global__ __launch_bounds__(THREADS, 2) void mma_kernel(float* out) {
  uint32_t a[MMA_M][4], b[MMA_N][2];
  float acc[MMA_M][MMA_N][4] = {};
  for (int i = 0; i < MMA_M; ++i)
    for (int r = 0; r < 4; ++r) a[i][r] = random_word<DTYPE>(4 * i + r);
  for (int j = 0; j < MMA_N; ++j)
    for (int r = 0; r < 2; ++r) b[j][r] = random_word<DTYPE>(4 * MMA_M + 2 * j + r);
  for (int iteration = 0; iteration < MMA_ITERATIONS; ++iteration)
    for (int i = 0; i < MMA_M; ++i)
      for (int j = 0; j < MMA_N; ++j)
        if constexpr (DTYPE == DType::f16)
          mma_m16n8k16_f16(acc[i][j], a[i], b[j]);
        else
          mma_m16n8k8_tf32(acc[i][j], a[i], b[j]);
  float sum = 0;
  for (auto& row : acc)
    for (auto& tile : row)
      for (float x : tile) sum += x;
  keep(sum, out);
}

// wgmma m64n256 with both operands in shared memory. Two warpgroups a block, each with its own 64
// rows of A, share 256 rows of B: the traffic of a GEMM's main loop without its loads.
constexpr int WGMMA_M = 64, WGMMA_N = 256, WGMMA_GROUPS = THREADS / 128;
constexpr int WGMMA_ITERATIONS = 1024;
constexpr int WGMMA_BATCH = 16;              // instructions queued before each wait
constexpr double wgmma_flops(DType dtype) {  // a block
  const int k = 32 / info(info(dtype).in).bytes;
  return 2.0 * WGMMA_M * WGMMA_N * k * WGMMA_BATCH * WGMMA_ITERATIONS * WGMMA_GROUPS;
}

constexpr int ROW_BYTES =
    128;  // of a tile: four K steps of 32 bytes (32 FP8, 16 halves or 8 floats)

// Without sm_90a's instructions it does nothing, and says so.
template <DType DTYPE>
__global__ __launch_bounds__(THREADS, 1) void wgmma_kernel(float* out, bool* available) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  constexpr int ROWS = WGMMA_GROUPS * WGMMA_M + WGMMA_N, WORDS = ROW_BYTES / 4;
  __shared__ alignas(1024) uint32_t tiles[ROWS * WORDS];  // A of each warpgroup, then B
  for (int i = 0; i < ROWS * WORDS / THREADS; ++i)
    tiles[i * THREADS + threadIdx.x] = random_word<DTYPE>(i);
  fence_proxy_async();  // wgmma reads by the async proxy
  __syncthreads();

  const int warpgroup = threadIdx.x / 128;
  using T = std::conditional_t<DTYPE == DType::f16, half,
                               std::conditional_t<DTYPE == DType::e4m3, f8e4m3, float>>;
  const auto descriptor = wgmma_descriptor<Major::K, Swizzle::b128>;
  const uint64_t a = descriptor(tiles + warpgroup * WGMMA_M * WORDS, 0);
  const uint64_t b = descriptor(tiles + WGMMA_GROUPS * WGMMA_M * WORDS, 0);
  float acc[WGMMA_N / 2] = {};
  for (int iteration = 0; iteration < WGMMA_ITERATIONS; ++iteration) {
    wgmma_fence();
#pragma unroll
    for (int i = 0; i < WGMMA_BATCH; ++i) {
      const int step = i % 4 * 32 >> 4;  // along K, in the descriptor's unit
      wgmma<T, WGMMA_N>(acc, a + step, b + step, true);
    }
    wgmma_commit();
    wgmma_wait<0>(acc);
  }
  float sum = 0;
  for (float x : acc) sum += x;
  keep(sum, out);
  *available = true;
#else
  static_cast<void>(out);
  static_cast<void>(available);
#endif
}

__global__ void random_kernel(uint64_t* out, int64_t count) {
  const int64_t stride = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += stride)
    out[i] = mix(1, i);
}

class Bench {
 public:
  explicit Bench(GpuDevice& device) : device_(device), timer_(device.stream()) {}

  // Work a second: 0.1 s of warm-up, then the median of five samples of 50 ms.
  double rate(double work, const std::function<void()>& launch) {
    timer_.run({{&launch, 1}}, false);  // loads its code
    const double once = timer_.run({{&launch, 1}}, false)[0];
    const int launches = static_cast<int>(std::clamp(50e-3 / once, 1.0, 500.0));
    timer_.run({{&launch, 2 * launches}}, false);
    std::vector<double> seconds = timer_.run(std::vector<Sample>(5, {&launch, launches}), false);
    std::sort(seconds.begin(), seconds.end());
    return work / seconds[2];
  }

  // The rate of a kernel with `blocks_per_sm` blocks on every SM.
  template <class... Params>
  double kernel_rate(double work_per_block, int blocks_per_sm, void (*kernel)(Params...),
                     Params... params) {
    const int blocks = device_.properties().multiProcessorCount * blocks_per_sm;
    return rate(work_per_block * blocks, [&] {
      kernel<<<blocks, THREADS, 0, device_.stream()>>>(params...);
      check_cuda(cudaGetLastError(), "a kernel of measure_peaks");
    });
  }

  // 0 where wgmma does not exist.
  template <DType DTYPE>
  double wgmma_rate() {
    const DeviceMemory flag(device_, sizeof(bool));
    GEMM_CUDA(cudaMemsetAsync(flag.as<bool>(), 0, sizeof(bool), device_.stream()));
    float* const out = nullptr;  // never written
    wgmma_kernel<DTYPE><<<1, THREADS, 0, device_.stream()>>>(out, flag.as<bool>());
    check_cuda(cudaGetLastError(), "wgmma_kernel");
    bool available = false;
    device_.download(&available, flag.as<bool>(), sizeof available);
    if (!available) return 0;
    return kernel_rate(wgmma_flops(DTYPE), 1, wgmma_kernel<DTYPE>, out, flag.as<bool>());
  }

  double copy_rate() {
    size_t free = 0, total = 0;
    GEMM_CUDA(cudaMemGetInfo(&free, &total));
    const size_t bytes = std::min<size_t>(1u << 30, free / 4) / 256 * 256;
    const DeviceMemory from(device_, bytes), to(device_, bytes);
    random_kernel<<<1024, THREADS, 0, device_.stream()>>>(from.as<uint64_t>(),
                                                          bytes / sizeof(uint64_t));
    check_cuda(cudaGetLastError(), "random_kernel");
    return rate(2.0 * bytes, [&] {
      GEMM_CUDA(cudaMemcpyAsync(to.as<char>(), from.as<char>(), bytes, cudaMemcpyDeviceToDevice,
                                device_.stream()));
    });
  }

 private:
  GpuDevice& device_;
  StreamTimer timer_;
};

}  // namespace

Peaks measure_peaks(Device& device) {
  const NvtxRange range("measure peaks");
  constexpr double TERA = 1e12;
  const DeviceScope scope(as_gpu(device).ordinal());
  Bench bench(as_gpu(device));
  float* const out = nullptr;  // never written
  Peaks p;
  p.ffma_tflops = bench.kernel_rate(FFMA_FLOPS, 2, ffma_kernel, out) / TERA;
  p.mma_f16_tflops =
      bench.kernel_rate(mma_flops(DType::f16), 2, mma_kernel<DType::f16>, out) / TERA;
  p.mma_tf32_tflops =
      bench.kernel_rate(mma_flops(DType::tf32), 2, mma_kernel<DType::tf32>, out) / TERA;
  p.tensor_f16_tflops = std::max(p.mma_f16_tflops, bench.wgmma_rate<DType::f16>() / TERA);
  p.tensor_tf32_tflops = std::max(p.mma_tf32_tflops, bench.wgmma_rate<DType::tf32>() / TERA);
  p.tensor_f8_tflops = bench.wgmma_rate<DType::e4m3>() / TERA;
  p.copy_tbs = bench.copy_rate() / TERA;
  return p;
}

}  // namespace gemm
