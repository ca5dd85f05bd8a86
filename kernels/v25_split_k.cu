// v25 split K: few rows of C, many SMs.
//
// before: v24's tiles are at least 64 x 128. Where C has 16 rows, three quarters of a tile are
//         multiplied in vain; 4096 columns make 32 tiles, and 100 SMs fetch nothing, although all
//         that counts is how fast B comes from memory
// idea:   compute C^T where C is flat: the long side becomes wgmma's 64 rows, the short one its
//         columns, of which 16 are enough; and two blocks of a cluster share a tile, each with half
//         of K. They add up their parts through each other's shared memory
// watch:  bytes in flight: 128 blocks with a ring of 160 KB, and how soon a slice's buffer is free
//         again: two consumers take turns. The sums are added in a fixed order, so that every run
//         gives the same bits
// needs:  sm_90a; operands whose rows TMA cannot address (multiples of 16 bytes) are copied first
//
//   role        threads   waits for      then                         and tells
//   producer    one       empty[stage]   loads a slice of its half    full[stage], by TMA's bytes
//   consumers   2 x 128   full[stage]    4 wgmma of every other one   empty[stage], a slice later
//               all 256   the cluster    add half a tile, store it
#include "device/operand_tile.cuh"
#include "device/pipeline.cuh"
#include "device/wgmma_epilogue.cuh"
#include "rung.h"

namespace {
using namespace gemm;

constexpr int BX = 64, BK = 64, MMA_K = 16;  // a tile's long side: rows of C, or columns
constexpr int SPLIT = 2;                     // blocks a cluster, each with its part of K
constexpr int CONSUMERS = 2;                 // warpgroups, which take slices in turn
constexpr int WORKERS = CONSUMERS * 128, THREADS = WORKERS + 32;  // and the producer's warp
constexpr int LD = BX + 4;  // of a part: 2 * LD * t + g are 32 different banks

// With x along the tile's long side and y along the short one: X is A, and Y is B, or SWAPPED.
template <class T, Major X_MAJOR, Major Y_MAJOR, bool SWAPPED, int BY, int STAGES>
__global__ void __launch_bounds__(THREADS, 1)
    gemm_v25(GemmArgs<T> p, const __grid_constant__ TensorMap map_x,
             const __grid_constant__ TensorMap map_y) {
  using TileX = OperandTile<T, BX, X_MAJOR>;
  using TileY = OperandTile<T, BY, Y_MAJOR>;
  static_assert(STAGES % CONSUMERS == 0, "a buffer's phases are all waited for by one consumer");
  constexpr int HALF = BY / SPLIT, PART = HALF * LD;  // columns of a tile that a block adds up
  constexpr int PARTS = SPLIT * CONSUMERS, SHARE = BX * HALF / WORKERS;
  // Where am I?
  const int tid = threadIdx.x, rank = cluster_rank(), tile = blockIdx.x / SPLIT;
  const int tiles_x = cdiv(SWAPPED ? p.N : p.M, BX), slices = cdiv(p.K, BK);
  const int x0 = tile % tiles_x * BX, y0 = tile / tiles_x * BY;
  const int begin = int64_t{slices} * rank / SPLIT, end = int64_t{slices} * (rank + 1) / SPLIT;

  // The ring, and what all consumers of the cluster have of this block's half, transposed.
  auto* sX = static_cast<uint8_t*>(dynamic_shared());
  uint8_t* sY = sX + STAGES * TileX::BYTES;
  auto* part = reinterpret_cast<float*>(sY + STAGES * TileY::BYTES);
  auto* full = reinterpret_cast<uint64_t*>(part + PARTS * PART);
  uint64_t* empty = full + STAGES;
  if (tid == 0) init_ring<STAGES>(full, empty, 1);
  __syncthreads();
  cluster_arrive();
  grid_launch_dependents();
  grid_dependency_wait();

  Slot<STAGES> slot;
  float acc[BY / 2] = {};
  const int wg = tid / 128;
  if (tid >= WORKERS) {
    // The producer.
    if (elect_one())
      produce<TileX, TileY>(sX, sY, full, empty, slot, map_x, map_y, x0, y0, begin, end);
  } else {
    // A consumer: every other slice.
    int last = 0;
    slot.skip(wg);
    for (int slice = begin + wg; slice < end;
         slice += CONSUMERS, last = slot.stage, slot.skip(CONSUMERS)) {
      const int s = slot.stage;
      mbarrier_wait(&full[s], slot.phase);
      wgmma_fence();
#pragma unroll
      for (int k = 0; k < BK / MMA_K; ++k)
        wgmma<T, BY, X_MAJOR, Y_MAJOR>(
            acc, TileX::descriptor(sX + s * TileX::BYTES) + k * TileX::K_STEP,
            TileY::descriptor(sY + s * TileY::BYTES) + k * TileY::K_STEP, true);
      wgmma_commit();
      wgmma_wait<1>();
      if (tid % 128 == 0 && slice >= begin + CONSUMERS) mbarrier_arrive(&empty[last]);
    }
    wgmma_wait<0>(acc);
  }

  // [region idea]
  cluster_wait();  // the other block has begun: its shared memory is there
  if (tid < WORKERS) {
    const int x = tid % 128 / 32 * 16 + tid % 32 / 4, y = tid % 4 * 2;
    float* const mine = part + (rank * CONSUMERS + wg) * PART;
#pragma unroll
    for (int i = 0; i < BY / 2; ++i)  // each block is sent its half
      map_shared(mine, i / (BY / 4))[(y + i / 4 * 8 + i % 2) % HALF * LD + x + i / 2 % 2 * 8] =
          acc[i];
  }
  cluster_arrive();
  cluster_wait();  // all parts have come
  if (tid < WORKERS)
#pragma unroll
    for (int i = 0; i < SHARE; ++i) {
      const int x = (tid + i * WORKERS) % BX, y = (tid + i * WORKERS) / BX;
      float sum = 0;
#pragma unroll
      for (int from = 0; from < PARTS; ++from) sum += part[from * PART + y * LD + x];
      const int at_x = x0 + x, at_y = y0 + rank * HALF + y;
      SWAPPED ? store(p, at_y, at_x, sum) : store(p, at_x, at_y, sum);
    }
  // [/region idea]
}

template <class T, bool SWAPPED, int BY, int STAGES>
void launch(const GemmArgs<T>& p, Stream stream) {
  const int X = SWAPPED ? p.N : p.M, Y = SWAPPED ? p.M : p.N;
  const int64_t grid = int64_t{cdiv(X, BX)} * cdiv(Y, BY) * SPLIT;
  const TmaOperands<T> in(p, stream);
  const Repacked<T>&x = SWAPPED ? in.B : in.A, &y = SWAPPED ? in.A : in.B;
  with_majors(p, [&](auto a, auto b) {
    constexpr Major X_MAJOR = SWAPPED ? b() : a(), Y_MAJOR = SWAPPED ? a() : b();
    using TileX = OperandTile<T, BX, X_MAJOR>;
    using TileY = OperandTile<T, BY, Y_MAJOR>;
    constexpr size_t SMEM =
        STAGES * (TileX::BYTES + TileY::BYTES + 2 * 8) + CONSUMERS * BY * LD * 4;
    gemm::launch(gemm_v25<T, X_MAJOR, Y_MAJOR, SWAPPED, BY, STAGES>, grid, dim3(THREADS),
                 {.smem = SMEM, .cluster = SPLIT, .early = true}, stream, p,
                 TileX::map(x.data, X, p.K, x.ld), TileY::map(y.data, Y, p.K, y.ld));
  });
}

template <class T>
const Variant<T> VARIANTS[] = {{"rows x 16 s16", launch<T, false, 16, 16>},
                               {"rows x 64 s10", launch<T, false, 64, 10>},
                               {"columns x 16 s16", launch<T, true, 16, 16>},
                               {"columns x 64 s10", launch<T, true, 64, 10>}};

template <class T>
Choice choose(const GemmArgs<T>& p, int sms) {
  const int flat = p.M <= p.N, x = std::max(p.M, p.N), y = std::min(p.M, p.N);
  const bool narrow = y <= 16 || int64_t{cdiv(x, BX)} * cdiv(y, 16) * SPLIT <= sms;
  return {2 * flat + !narrow, std::string(flat ? "C^T" : "C") + " in tiles of 64 x " +
                                  (narrow ? "16" : "64") + ", each by two blocks"};
}

const Registration rung({.prev = "v24",
                         .idea = "split K: two blocks a tile, C^T where C is flat",
                         .needs = {.sm = 90, .exact_arch = true, .transposed = true}},
                        {f16(VARIANTS<half>, choose), bfloat16(VARIANTS<bf16>, choose)});

}  // namespace
