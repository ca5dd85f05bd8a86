// What a Hopper GPU's energy goes into at its power limit, for docs/reports/wide_tiles.md: wgmma of
// several widths out of shared memory, without loads and beside loads from L2 or from memory, each
// for a second. Prints JSON: build/energy_limits > plots/results/<gpu>/energy_limits.json. What a
// k-tile takes more of energy where more bytes are loaded is theirs.
#include <algorithm>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "device/operand_tile.cuh"
#include "device/pipeline.cuh"
#include "device/ptx/mbarrier.cuh"
#include "device/ptx/tma.cuh"
#include "device/ptx/warp_roles.cuh"
#include "device/ptx/wgmma.cuh"
#include "harness/gpu/cuda_check.h"
#include "harness/gpu/gpu_device.h"
#include "harness/gpu/nvml.h"
#include "harness/gpu/stream_timer.h"
#include "harness/inputs.h"

namespace gemm {
namespace {

constexpr int THREADS = 3 * 128, STAGES = 4, BM = 128, BK = 64, MMA_M = 64, MMA_K = 16;
constexpr int MOST_BYTES = 40960;           // of a k-tile: 128 x 64 and 192 x 64 of f16
constexpr int TILES = (BM + 256) * BK * 2;  // operands that stay: A, then B
constexpr size_t SMEM = TILES + STAGES * (MOST_BYTES + 2 * 8);
constexpr int K_TILES = 8192;  // a block and launch

__global__ void random_halves(half* out, int64_t count) {
  const int64_t stride = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += stride)
    out[i] = __float2half(random_value(1, i));
}

// Two warpgroups compute every other k-tile each, BLOCKS x N wgmma, from operands that stay. For
// each k-tile, `bytes` bytes of the `span` at `from` go through a pipeline; nothing reads them. N =
// 0: loads only.
template <int N, int BLOCKS>
__global__ void __launch_bounds__(THREADS, 1)
    energy_kernel(const half* from, int64_t span, uint32_t bytes, float* out) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  constexpr int WIDTH = N > 0 ? N : 8;
  using TileA = OperandTile<half, BM, Major::K>;
  using TileB = OperandTile<half, WIDTH, Major::K>;
  extern __shared__ __align__(1024) uint8_t shared[];
  const int tid = threadIdx.x, wg = tid / 128;
  uint8_t *sA = shared, *sB = sA + TileA::BYTES, *stages = shared + TILES;
  auto* full = reinterpret_cast<uint64_t*>(stages + STAGES * MOST_BYTES);
  uint64_t* empty = full + STAGES;
  for (int i = tid; i < TILES / 2; i += THREADS)
    reinterpret_cast<half*>(shared)[i] = __float2half(random_value(2, i));
  if (tid == 0) init_pipeline<STAGES>(full, empty, 1);
  fence_proxy_async();  // wgmma reads by the async proxy
  __syncthreads();

  PipelineState<STAGES> state;
  if (wg == 2) {
    setmaxnreg_dec<24>();
    if (tid % 128 != 0 || bytes == 0) return;
    // Neighbours read neighbouring chunks, and all of `from` in turn.
    const int64_t chunks = span / bytes;
    int64_t chunk = blockIdx.x % chunks;
    load_k_tiles(full, empty, state, 0, K_TILES, bytes, [&](int s, int) {
      bulk_load(stages + s * MOST_BYTES, from + chunk * (bytes / 2), bytes, &full[s]);
      chunk += gridDim.x;
      if (chunk >= chunks) chunk -= chunks;
    });
    return;
  }
  setmaxnreg_inc<240>();
  float acc[BLOCKS][WIDTH / 2];
  clear_registers(acc);
  state.skip(wg);
  for (int k_tile = wg; k_tile < K_TILES; k_tile += 2, state.skip(2)) {
    if (bytes > 0) mbarrier_wait(&full[state.stage], state.phase);
    if constexpr (N > 0) {
      wgmma_fence();
#pragma unroll
      for (int k = 0; k < BK / MMA_K; ++k)
#pragma unroll
        for (int i = 0; i < BLOCKS; ++i)
          wgmma<half, WIDTH, Major::K, Major::K>(
              acc[i], TileA::descriptor(sA, i * MMA_M) + k * TileA::K_STEP,
              TileB::descriptor(sB) + k * TileB::K_STEP, true);
      wgmma_commit();
      wgmma_wait<1>();  // the k-tile before
    }
    if (bytes > 0 && tid % 128 == 0) mbarrier_arrive(&empty[state.stage]);
  }
  wgmma_wait<0>();
  fence_operand(acc);
  float sum = 0;
  for (const auto& row : acc)
    for (const float x : row) sum += x;
  if (sum == 1.2345e-30f) *out = sum;
#endif
}

class EnergyBench {
 public:
  explicit EnergyBench(GpuDevice& device)
      : device_(device), timer_(device.stream()), memory_(device, FAR) {
    random_halves<<<1024, 512, 0, device.stream()>>>(memory_.as<half>(), FAR / 2);
    check_cuda(cudaGetLastError(), "random_halves");
  }

  static constexpr int64_t FAR = int64_t{4} << 30, NEAR = int64_t{16} << 20;

  template <int N, int BLOCKS>
  void measure(int64_t span, int bytes) {
    const auto kernel = energy_kernel<N, BLOCKS>;
    GEMM_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, SMEM));
    const int sms = device_.properties().multiProcessorCount;
    const std::function<void()> launch = [&] {
      kernel<<<sms, THREADS, SMEM, device_.stream()>>>(memory_.as<half>(), span, bytes, nullptr);
      check_cuda(cudaGetLastError(), "energy_kernel");
    };
    const auto run_for = [&](double seconds) {
      std::vector<double> each;
      for (double spent = 0; spent < seconds;)
        for (const double s : timer_.run(std::vector<Sample>(8, {&launch, 1}), false))
          each.push_back(s), spent += s;
      std::nth_element(each.begin(), each.begin() + each.size() / 2, each.end());
      return each[each.size() / 2];
    };
    run_for(0.4);
    ConditionsSampler sampler(device_.nvml());
    const double seconds = run_for(1);
    const Conditions c = sampler.stop();
    const double k_tiles = double(sms) * K_TILES;
    std::printf(
        "%s\n    {\"wgmma_n\": %d, \"blocks_of_64\": %d, \"from\": \"%s\", \"bytes_a_k_tile\": %d, "
        "\"tflops\": %.1f, \"tbs\": %.3f, \"sm_clock_mhz\": %.0f, \"power_w\": %.1f, "
        "\"nj_a_k_tile\": %.2f}",
        first_ ? "" : ",", N, N > 0 ? BLOCKS : 0,
        bytes == 0    ? ""
        : span == FAR ? "memory"
                      : "L2",
        bytes, 2e-12 * k_tiles * BLOCKS * MMA_M * N * BK / seconds,
        1e-12 * k_tiles * bytes / seconds, c.sm_clock_mhz, c.power_w,
        c.power_w * seconds / k_tiles * 1e9);
    std::fflush(stdout);
    first_ = false;
  }

 private:
  GpuDevice& device_;
  StreamTimer timer_;
  DeviceMemory memory_;
  bool first_ = true;
};

int run() {
  std::string why;
  const std::unique_ptr<Device> device = make_gpu_device(why);
  if (device == nullptr || device->sm() != 90) {
    std::fprintf(stderr, "energy_limits: %s\n",
                 device == nullptr ? why.c_str() : "this GPU has no wgmma");
    return 1;
  }
  std::printf("{\n  \"gpu\": \"%s\",\n  \"results\": [", device->name().c_str());
  EnergyBench bench(as_gpu(*device));
  constexpr int64_t NEAR = EnergyBench::NEAR, FAR = EnergyBench::FAR;
  bench.measure<192, 2>(NEAR, 0);  // warms the card
  bench.measure<256, 1>(NEAR, 0);
  bench.measure<192, 2>(NEAR, 0);
  bench.measure<128, 2>(NEAR, 0);
  bench.measure<64, 2>(NEAR, 0);
  for (const int bytes : {10240, 20480, 30720, 40960}) bench.measure<192, 2>(NEAR, bytes);
  for (const int bytes : {5120, 10240}) bench.measure<192, 2>(FAR, bytes);
  bench.measure<0, 1>(NEAR, 40960);
  bench.measure<0, 1>(FAR, 40960);
  bench.measure<192, 2>(NEAR, 0);  // as above: what the card's heat does
  std::printf("\n  ]\n}\n");
  return 0;
}

}  // namespace
}  // namespace gemm

int main() { return gemm::run(); }
