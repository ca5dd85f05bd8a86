// ex34: a GEMM in whole tiles, and an activation: C = f(alpha * A * B + beta * C), where f(x) is x
// for x >= 0 and slope * x below: leaky ReLU.
#include "exercise.h"
#include "tile/tile.cuh"

namespace {
using namespace gemm;

using Loop = tile::Ffma<64, 64, 16, 3>::Any<float>;  // BM, BN, BK, STAGES

__global__ void __launch_bounds__(Loop::THREADS, Loop::CTAS)
    gemm_ex34(const __grid_constant__ tile::Gemm<Loop> p, float slope) {
  Loop::run([&](auto& cta) {
    for (const auto [m, n] : cta.tiles(p.C, p.group_m)) {
      auto acc = cta.zeros();  // (BM, BN)
      cta.pipeline(p.k_tiles, acc, [&](auto& sum, int k) {
        dot(load(p.A, m, k), load(p.B, k, n), sum);  // (BM, BK), (BK, BN)
      });
      const auto x = p.alpha * acc + p.beta * load(p.C, m, n, p.beta != 0);
      cta.store(p.C, m, n, where(x >= 0.0f, x, slope * x));
    }
  });
}

void launch(const GemmArgs<float>& p, float slope, Stream stream) {
  tile::launch<Loop>(tile::problem(p), 8, stream, gemm_ex34, slope);
}

const Exercise exercise(launch);

}  // namespace
