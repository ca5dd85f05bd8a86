// The second kernel of a split K: adds up the sums of all parts and stores C. Taught in v27.
#include "device/ptx/grid.cuh"
#include "device/ptx/warp_roles.cuh"
#include "device/vec.cuh"
#include "engine/launch.cuh"
#include "engine/unit_rows.cuh"

GEMM_BUILD_NAMESPACE_BEGIN
namespace engine_device {
using namespace engine;  // configurations and cuts

constexpr int AT_ONCE = 4;  // loads of a thread in flight

// Adds up one unit of C, 64 x 8 results, and stores it, one per CTA. ADDERS groups of 128 threads
// take parts by turns, four loads at once. `sums`: as gemm_cooperative left them.
template <class T, int ADDERS>
__global__ void __launch_bounds__(ADDERS * 128)
    gemm_reduce(GemmArgs<T> p, bool swapped, bool aligned_c, Rectangle cut, int bx,
                const Sums* sums) {
  __shared__ Sums added[ADDERS][128];
  __shared__ float row[UNIT_ROOM];
  grid_launch_dependents();
  const int tid = threadIdx.x, group = tid / 128;
  const int columns = cut.height / 8, units = bx / MMA_X * columns;
  const int tile = blockIdx.x / units, unit = blockIdx.x % units;
  grid_dependency_wait(tile, unit);

  const Sums* const from = sums + (int64_t{tile} * cut.parts * units + unit) * 128 + tid % 128;
  const int64_t step = int64_t{units} * 128;
  float of_group[4] = {};
  for (int first = group; first < cut.parts; first += ADDERS * AT_ONCE) {
    // Beyond the last part it is loaded again: a load on a condition would wait for others.
    Sums fours[AT_ONCE];
#pragma unroll
    for (int i = 0; i < AT_ONCE; ++i) {
      const int part = first + i * ADDERS;
      fours[i] = from[(part < cut.parts ? part : cut.parts - 1) * step];
    }
#pragma unroll
    for (int i = 0; i < AT_ONCE; ++i)
#pragma unroll
      for (int e = 0; e < 4; ++e) of_group[e] += first + i * ADDERS < cut.parts ? fours[i][e] : 0;
  }
  Sums four = {};
#pragma unroll
  for (int e = 0; e < 4; ++e) four.set(e, of_group[e]);
  added[group][tid % 128] = four;
  __syncthreads();
  if (group > 0) return;
  float all[4] = {};
#pragma unroll
  for (int i = 0; i < ADDERS * 4; ++i) all[i % 4] += added[i / 4][tid][i % 4];
  put_unit(row, 0, swapped, all);
  named_barrier_sync(1, 128);
  const int size = cut.cluster.size(), nth = tile / size;
  const auto [tile_x, tile_y] = cut.tile(nth, tile - nth * size);
  const int x0 = tile_x * bx, y0 = tile_y * cut.height;
  store_units(p, row, 1, swapped, aligned_c, tid, 128, [&](int, int& x, int& y) {
    x = x0 + unit / columns * MMA_X;
    y = y0 + unit % columns * 8;
  });
}

template <class T>
void add_parts(const GemmArgs<T>& p, const Choice& choice, const Arch& arch, const Sums* sums,
               Stream stream) {
  const Rectangle& cut = choice.cut;
  const int bx = choice.config().bx;
  const int64_t tiles = int64_t{cut.clusters()} * cut.cluster.size(),
                of_tile = bx / MMA_X * (cut.height / 8), units = tiles * of_tile;
  const auto start = [&](auto adders) {
    gemm::launch(gemm_reduce<T, adders()>, units, dim3(adders() * 128), {.pdl = true}, stream, p,
                 choice.swapped, has_aligned_c(p), cut, bx, sums);
  };
  // As many groups as have room on all SMs at once: 16 on each.
  const int64_t room = 16 * arch.sms;
  if (units * 4 <= room)
    start(std::integral_constant<int, 4>());
  else if (units * 2 <= room)
    start(std::integral_constant<int, 2>());
  else
    start(std::integral_constant<int, 1>());
}

template void add_parts(const GemmArgs<half>&, const Choice&, const Arch&, const Sums*, Stream);
template void add_parts(const GemmArgs<bf16>&, const Choice&, const Arch&, const Sums*, Stream);

}  // namespace engine_device
GEMM_BUILD_NAMESPACE_END
