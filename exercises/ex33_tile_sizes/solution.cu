// ex33: a GEMM in whole tiles, with sizes to choose: BM, BN, BK, STAGES, WM and WN.
#include "exercise.h"
#include "tile/tile.cuh"

namespace {
using namespace gemm;

// A CTA's tile is BM x BN, a warp's WM x WN, a thread's WM / 4 x WN / 8; k-tiles are BK deep.
constexpr int BM = 128, BN = 128, BK = 16, STAGES = 3;
constexpr int WM = 32, WN = 64;
using Loop = tile::Ffma<BM, BN, BK, STAGES, WM, WN>::Any<float>;
static_assert(Loop::THREADS <= 1024, "a CTA has at most 1024 threads");
static_assert(Loop::SMEM <= 227 * 1024, "a CTA of an H200 has 227 KB of shared memory");

__global__ void __launch_bounds__(Loop::THREADS)
    gemm_ex33(const __grid_constant__ tile::Gemm<Loop> p) {
  Loop::run([&](auto& cta) {
    for (const auto [m, n] : cta.tiles(p.C, p.group_m)) {
      auto acc = cta.zeros();  // (BM, BN)
      cta.pipeline(p.k_tiles, acc, [&](auto& sum, int k) {
        dot(load(p.A, m, k), load(p.B, k, n), sum);  // (BM, BK), (BK, BN)
      });
      const auto c = load(p.C, m, n, p.beta != 0);
      cta.store(p.C, m, n, p.alpha * acc + p.beta * c);
    }
  });
}

void launch(const GemmArgs<float>& p, Stream stream) {
  tile::launch<Loop>(tile::problem(p), 8, stream, gemm_ex33);
}

const Exercise exercise(launch);

}  // namespace
