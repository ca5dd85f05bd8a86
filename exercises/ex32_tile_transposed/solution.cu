// ex32: C = alpha * op(A) * op(B) + beta * C in whole tiles.
//
// op(X) is X, or X transposed where p.op_a or p.op_b is Op::T. op(A) is M x K and op(B) is K x N,
// so a transposed A is stored as K rows of M elements, and a transposed B as N rows of K.
#include "exercise.h"
#include "tile/tile.cuh"

namespace {
using namespace gemm;

using Loop = tile::Ffma<64, 64, 16, 3>::Any<float>;  // BM, BN, BK, STAGES

__global__ void __launch_bounds__(Loop::THREADS, Loop::CTAS)
    gemm_ex32(const __grid_constant__ tile::Gemm<Loop> p) {
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
  // Data, rows, columns, and the distances from an element to the next row's and the next column's.
  const bool ta = p.op_a == Op::T, tb = p.op_b == Op::T;
  const tile::Matrix<const float> a{p.A, p.M, p.K, ta ? 1 : p.lda, ta ? p.lda : 1};
  const tile::Matrix<const float> b{p.B, p.K, p.N, tb ? 1 : p.ldb, tb ? p.ldb : 1};
  const tile::Matrix<float> c{p.C, p.M, p.N, p.ldc, 1};
  tile::launch<Loop>(tile::Problem<float>{a, b, c, p.epilogue}, 8, stream, gemm_ex32);
}

const Exercise exercise(launch);

}  // namespace
