// ex31: a GEMM in whole tiles, and a bias: C = alpha * A * B + beta * C + bias, where bias[n] is
// added to every element of column n. bias has N elements, nothing more.
#include "exercise.h"
#include "tile/tile.cuh"

namespace {
using namespace gemm;

using Loop = tile::Ffma<64, 64, 16, 3>::Any<float>;  // BM, BN, BK, STAGES

__global__ void __launch_bounds__(Loop::THREADS, Loop::CTAS)
    gemm_ex31(const __grid_constant__ tile::Gemm<Loop> p, tile::Matrix<const float> bias) {
  const auto rows = bias.tiles<Loop::BM, Loop::BN>();
  Loop::run([&](auto& cta) {
    for (const auto [m, n] : cta.tiles(p.C, p.group_m)) {
      auto acc = cta.zeros();  // (BM, BN)
      cta.pipeline(p.k_tiles, acc, [&](auto& sum, int k) {
        dot(load(p.A, m, k), load(p.B, k, n), sum);  // (BM, BK), (BK, BN)
      });
      const auto c = load(p.C, m, n, p.beta != 0);
      cta.store(p.C, m, n, p.alpha * acc + p.beta * c + load(rows, m, n));
    }
  });
}

void launch(const GemmArgs<float>& p, const float* bias, Stream stream) {
  const tile::Matrix<const float> rows{bias, p.M, p.N, 0};  // M rows at one address
  tile::launch<Loop>(tile::problem(p), 8, stream, gemm_ex31, rows);
}

const Exercise exercise(launch);

}  // namespace
