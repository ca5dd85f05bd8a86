// Mistakes that asynchronous pipelines invite, planted one by one in two small kernels: a product
// through a pipeline of TMA buffers and wgmma, and a tile stored by TMA. Simulator only: on a GPU
// they hang, or are wrong now and then.
#include <cstring>
#include <fstream>

#include "device/dynamic_shared.cuh"
#include "device/ptx/cluster.cuh"
#include "device/ptx/grid.cuh"
#include "device/ptx/mbarrier.cuh"
#include "device/ptx/tma.cuh"
#include "device/ptx/warp_roles.cuh"
#include "device/ptx/wgmma.cuh"
#include "device/tma.h"
#include "device/wgmma_descriptor.cuh"
#include "hopper.h"
#include "rung.h"

namespace {
using namespace gemm;
using hopper::Bytes;
using hopper::Planted;

enum Bug {
  NONE,
  MISSING_FULL_WAIT,
  MISSING_LATER_FULL_WAIT,
  EARLY_RELEASE,
  NEVER_RELEASED,
  TOO_MANY_BYTES,
  MISSING_WGMMA_WAIT,
  MISSING_LAST_WGMMA_WAIT,
  MISSING_WGMMA_FENCE,
  ACCUMULATORS_WRITTEN,
  MISSING_INIT_FENCE,
  HALF_A_WARPGROUP,
  MISSING_PROXY_FENCE,
  HALF_A_WARP_FENCES,
  MISSING_STORE_WAIT,
  NAMED_BARRIER_COUNT,
  COLUMN_WITHIN_16_BYTES,
  NEGATIVE_ROW,
  MAP_OF_A_BATCH,
  MISSING_CLUSTER_BARRIER,
  SHARED_VARIABLE_IN_CLUSTER,
  LOAD_BEFORE_GRID_WAIT,
  STORE_BEFORE_GRID_WAIT,
  MISSING_GRID_WAIT,
};

// D (64 x 64) = A (64 x K) * B^T (B is 64 x K), K in k-tiles of 64, through STAGES buffers.
constexpr int STAGES = 2, K_TILES = 5, SIZE = 64, K = K_TILES * SIZE;
constexpr int TILE = SIZE * SIZE * 2;  // bytes
constexpr int PIPELINE_SMEM = 2 * STAGES * TILE + 2 * STAGES * 8;

template <int BUG>
__global__ void pipeline(const __grid_constant__ TensorMap map_a,
                         const __grid_constant__ TensorMap map_b, float* out) {
  auto* tiles = static_cast<uint8_t*>(dynamic_shared());
  auto* full = reinterpret_cast<uint64_t*>(tiles + 2 * STAGES * TILE);
  uint64_t* empty = full + STAGES;
  const int tid = threadIdx.x;
  if (tid == 0)
    for (int s = 0; s < STAGES; ++s) {
      mbarrier_init(&full[s], 1);
      mbarrier_init(&empty[s], 1);  // one thread tells for the warpgroup
    }
  if (tid == 0 && BUG != MISSING_INIT_FENCE) fence_mbarrier_init();
  __syncthreads();
  if (tid >= 128) {  // the producer
    if (BUG != LOAD_BEFORE_GRID_WAIT) grid_dependency_wait();
    for (int i = 0; i < K_TILES && tid == 128; ++i) {
      const int s = i % STAGES, bytes = 2 * TILE + (BUG == TOO_MANY_BYTES ? 16 : 0);
      mbarrier_wait(&empty[s], i / STAGES % 2 ^ 1);
      mbarrier_arrive_expect_tx(&full[s], bytes);
      tma_load(tiles + 2 * s * TILE, map_a, 0, i * SIZE, &full[s]);
      tma_load(tiles + (2 * s + 1) * TILE, map_b, 0, i * SIZE, &full[s]);
    }
    grid_dependency_wait();
    return;
  }
  grid_dependency_wait();  // of these threads, not of the producer
  float acc[SIZE / 2] = {};
  for (int i = 0; i < K_TILES; ++i) {
    const int s = i % STAGES;
    const bool wait = BUG != MISSING_FULL_WAIT && (BUG != MISSING_LATER_FULL_WAIT || i < STAGES);
    if (wait) mbarrier_wait(&full[s], i / STAGES % 2);
    const auto a = wgmma_descriptor<Major::K, Swizzle::b128>(tiles + 2 * s * TILE, 0);
    const auto b = wgmma_descriptor<Major::K, Swizzle::b128>(tiles + (2 * s + 1) * TILE, 0);
    if (BUG == HALF_A_WARPGROUP && tid >= 64) break;
    if (BUG != MISSING_WGMMA_FENCE || i != 2) wgmma_fence();
    for (int k = 0; k < 4; ++k) wgmma<half, SIZE>(acc, a + 2 * k, b + 2 * k, true);
    wgmma_commit();
    if (BUG == EARLY_RELEASE && tid == 0) mbarrier_arrive(&empty[s]);
    if (BUG == ACCUMULATORS_WRITTEN && i == 3) acc[7] = 0;
    const bool last = i == K_TILES - 1;
    if (BUG != MISSING_WGMMA_WAIT && !(BUG == MISSING_LAST_WGMMA_WAIT && last)) wgmma_wait<0>(acc);
    if (BUG != EARLY_RELEASE && BUG != NEVER_RELEASED && tid == 0) mbarrier_arrive(&empty[s]);
  }
  const int warp = tid / 32, g = tid % 32 / 4, t = tid % 4;
  for (int i = 0; i < SIZE / 2; ++i)
    out[(16 * warp + g + i / 2 % 2 * 8) * SIZE + i / 4 * 8 + 2 * t + i % 2] = acc[i];
}

template <int BUG>
Planted pipeline_with(const char* name, std::vector<std::string> message,
                      sim::AsyncSchedule schedule = sim::AsyncSchedule::lazy_copies) {
  std::vector<half> in(2 * SIZE * K);
  for (size_t i = 0; i < in.size(); ++i) in[i] = half(float(int(i * 5 % 7) - 3));
  std::vector<float> d(SIZE * SIZE, 0.0f);
  for (int m = 0; m < SIZE; ++m)
    for (int n = 0; n < SIZE; ++n)
      for (int k = 0; k < K; ++k)
        d[m * SIZE + n] += float(in[m * K + k]) * float(in[(SIZE + n) * K + k]);
  Planted p{name, BUG != NONE, Bytes(in.size() * 2), Bytes(d.size() * 4), {}, schedule, message};
  memcpy(p.in.data(), in.data(), p.in.size());
  memcpy(p.expected.data(), d.data(), p.expected.size());
  p.run = [](const void* from, void* out) {
    const half* a = static_cast<const half*>(from);
    gemm::launch(pipeline<BUG>, 1, dim3(160), {.smem = PIPELINE_SMEM, .pdl = true}, nullptr,
                 tensor_map(a, SIZE, K, K, SIZE, SIZE, Swizzle::b128),
                 tensor_map(a + SIZE * K, SIZE, K, K, SIZE, SIZE, Swizzle::b128),
                 static_cast<float*>(out));
  };
  return p;
}

// Two tiles of 8 x 64 halves, written by all threads and stored by one, through one buffer.
template <int BUG>
__global__ void store(const __grid_constant__ TensorMap map, const uint32_t* in) {
  auto* tile = static_cast<uint32_t*>(dynamic_shared());
  if (BUG != STORE_BEFORE_GRID_WAIT) grid_dependency_wait();
  for (int i = 0; i < 2; ++i) {
    for (int w = threadIdx.x; w < 256; w += 64) tile[w] = in[i * 256 + w];
    const bool forgets = BUG == HALF_A_WARP_FENCES && threadIdx.x % 32 >= 16;
    if (!forgets && (BUG != MISSING_PROXY_FENCE || i == 0)) fence_proxy_async();
    if (BUG == NAMED_BARRIER_COUNT)
      named_barrier_sync(1, threadIdx.x < 32 ? 64 : 96);
    else
      named_barrier_sync(1, 64);
    if (threadIdx.x == 0) {
      tma_store(map, i * 8 - (BUG == NEGATIVE_ROW), BUG == COLUMN_WITHIN_16_BYTES ? 4 : 0, tile);
      tma_store_commit();
      if (BUG != MISSING_STORE_WAIT) tma_store_wait_read<0>();
    }
    __syncthreads();
  }
}

template <int BUG>
Planted store_with(const char* name, std::vector<std::string> message) {
  Bytes bytes(2048);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = uint8_t(i * 11 + i / 256);
  return {name,
          BUG != NONE,
          bytes,
          bytes,
          [](const void* from, void* out) {
            const TensorMap map =
                tensor_map(static_cast<const half*>(out), 16, 64, 64, 8, 64, Swizzle::none, 256,
                           MatrixBatch{BUG == MAP_OF_A_BATCH ? 1 : 0, 0});
            gemm::launch(store<BUG>, 1, dim3(64), {.smem = 1024, .pdl = true}, nullptr, map,
                         static_cast<const uint32_t*>(from));
          },
          sim::AsyncSchedule::lazy_copies,
          message};
}

template <int BUG>
__global__ void neighbours(int* out) {
  auto* s = static_cast<int*>(dynamic_shared());
  __shared__ int own;
  if (BUG == SHARED_VARIABLE_IN_CLUSTER && threadIdx.x == 0) own = cluster_rank();
  __syncthreads();
  s[threadIdx.x] = BUG == SHARED_VARIABLE_IN_CLUSTER ? own : threadIdx.x;
  cluster_arrive();
  cluster_wait();
  if (BUG != MISSING_GRID_WAIT || cluster_rank() == 1) grid_dependency_wait();
  if (BUG == MISSING_CLUSTER_BARRIER && cluster_rank() == 0) return;
  out[blockIdx.x * 32 + threadIdx.x] = *map_shared(s + threadIdx.x, cluster_rank() ^ 1);
}

template <int BUG>
Planted neighbours_with(const char* name, std::vector<std::string> message) {
  return {name,
          true,
          Bytes(16),
          Bytes(256),
          [](const void*, void* out) {
            gemm::launch(neighbours<BUG>, 2, dim3(32), {.smem = 128, .cluster = 2, .pdl = true},
                         nullptr, static_cast<int*>(out));
          },
          sim::AsyncSchedule::eager_copies,
          message};
}

// "hopper_bugs.cu:57": the first line of this file that holds `code`.
std::string at(const std::string& code) {
  std::ifstream file(HOPPER_BUGS);
  std::string line;
  for (int n = 1; std::getline(file, line); ++n)
    if (line.find(code) != std::string::npos) return "hopper_bugs.cu:" + std::to_string(n);
  return "no line with " + code;
}

}  // namespace

std::vector<gemm::hopper::Planted> gemm::hopper::planted() {
  constexpr auto EAGER = sim::AsyncSchedule::eager_copies;
  const std::string load = at("tma_load(tiles + 2 * s * TILE"),
                    full_wait = at("mbarrier_wait(&full"), empty_wait = at("mbarrier_wait(&empty"),
                    mma = at("wgmma<half, SIZE>(acc"), mma_wait = at("wgmma_wait<0>(acc)"),
                    stored = at("tma_store(map, i * 8");
  return {
      pipeline_with<NONE>("pipeline_without_a_bug", {}),
      store_with<NONE>("store_without_a_bug", {}),
      pipeline_with<MISSING_FULL_WAIT>("missing_full_wait", {mma, "nobody has written yet"}),
      pipeline_with<MISSING_LATER_FULL_WAIT>(
          "missing_later_full_wait",
          {mma, "being written by", load, "nobody has waited for its mbarrier"}),
      pipeline_with<EARLY_RELEASE>(
          "early_release",
          {load, "overwrites", "wgmma.mma_async (" + mma, "its wait has not returned"}, EAGER),
      pipeline_with<NEVER_RELEASED>(
          "never_released", {"deadlock: thread 0 (warp 0, lane 0) and 127 more wait", full_wait,
                             "thread 128 (warp 4, lane 0) waits", empty_wait, "phase 0 (parity 0)",
                             "lacks 1 of 1 arrivals"}),
      pipeline_with<TOO_MANY_BYTES>("too_many_bytes", {"deadlock: thread 0 (warp 0, lane 0)",
                                                       full_wait, "16 bytes of those announced"}),
      pipeline_with<MISSING_WGMMA_WAIT>("missing_wgmma_wait",
                                        {load, "overwrites", mma, "its wait has not returned"}),
      pipeline_with<MISSING_LAST_WGMMA_WAIT>("missing_last_wgmma_wait",
                                             {mma, "the thread ends before a wait for this wgmma"}),
      pipeline_with<MISSING_WGMMA_FENCE>("missing_wgmma_fence", {mma, "wgmma.fence is missing"}),
      pipeline_with<ACCUMULATORS_WRITTEN>(
          "accumulators_written", {mma_wait, mma, "accumulators", "were written before this wait"}),
      pipeline_with<MISSING_INIT_FENCE>("missing_init_fence", {load, "no fence.mbarrier_init"}),
      pipeline_with<HALF_A_WARPGROUP>(
          "half_a_warpgroup", {"deadlock: thread 0 (warp 0, lane 0) and 63 more wait", mma_wait,
                               "of which 64 of 128 threads have come"}),
      store_with<MISSING_PROXY_FENCE>(
          "missing_proxy_fence",
          {stored, "fence.proxy.async is missing",
           "since the last fence.proxy.async (" + at("i == 0)) fence_proxy_async")}),
      store_with<HALF_A_WARP_FENCES>("half_a_warp_fences",
                                     {stored, "fence.proxy.async is missing"}),
      store_with<MISSING_STORE_WAIT>("missing_store_wait",
                                     {stored, "the thread ends before a wait"}),
      store_with<NEGATIVE_ROW>("negative_row", {stored, "to row -1, column 0; allowed: from 0 on"}),
      store_with<MAP_OF_A_BATCH>("map_of_a_batch", {stored, "the tensor map has rank 3"}),
      store_with<COLUMN_WITHIN_16_BYTES>("column_within_16_bytes",
                                         {stored, "column 4 is 8 bytes into a row"}),
      store_with<NAMED_BARRIER_COUNT>("named_barrier_count",
                                      {"barrier 1 of 96 threads", "32 have come for one of 64"}),
      neighbours_with<MISSING_CLUSTER_BARRIER>("missing_cluster_barrier",
                                               {"block 1", "block 0 of the cluster has ended"}),
      neighbours_with<SHARED_VARIABLE_IN_CLUSTER>("shared_variable_in_cluster",
                                                  {"a __shared__ variable in a cluster of 2"}),
      pipeline_with<LOAD_BEFORE_GRID_WAIT>("load_before_grid_wait",
                                           {load, "before this thread's grid_dependency_wait"}),
      store_with<STORE_BEFORE_GRID_WAIT>("store_before_grid_wait",
                                         {stored, "before this thread's grid_dependency_wait"}),
      neighbours_with<MISSING_GRID_WAIT>("missing_grid_wait",
                                         {"block 0", "ends without grid_dependency_wait"}),
  };
}
