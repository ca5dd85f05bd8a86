// Short kernels over the tile layer: a vector add, a row softmax, a mask, and GEMMs with a fused
// bias, with an activation, of int8, and arranged by tiles of tiles. Shown in kernels/v29_tiles.md.
#pragma once

#include "rung.h"
#include "tile/arrangement.h"
#include "tile/tile.cuh"

GEMM_BUILD_NAMESPACE_BEGIN
namespace examples {

// [region add]
// z = x + y, 1024 elements a CTA.
using Vector = tile::View<float, 1, 1024>;
__global__ void add(Vector x, Vector y, Vector z) {
  const int i = blockIdx.x;
  store<tile::Line<1024>>(z, 0, i, load(x, 0, i) + load(y, 0, i));
}
// [/region add]

// [region softmax]
// Rows of up to 1024 elements, one a warp.
using FourRows = tile::View<float, 4, 1024>;
__global__ void softmax(FourRows x, FourRows y) {
  using Layout = tile::Rows<4, 1024>;
  const auto in = tile::compute<Layout>(load(x, blockIdx.x, 0, true, -INFINITY));
  const auto top = max_of_rows(in);
  const auto e = tile::compute<Layout>(exp(in - top));
  const auto all = sum_of_rows(e);
  store<Layout>(y, blockIdx.x, 0, e / all);
}
// [/region softmax]

// [region mask]
// The lower triangle of x, zeros above it.
using Square = tile::View<float, 4, 128>;
__global__ void lower_triangle(Square x, Square y) {
  const int i = blockIdx.x, j = 0;
  const auto below = tile::arange<0>(i * 4) >= tile::arange<1>(j * 128);
  store<tile::Rows<4, 128>>(y, i, j, where(below, load(x, i, j), 0.0f));
}
// [/region mask]

// [region bias]
// C = leaky_relu(alpha * A * B + bias): the bias is a matrix whose rows are all the same, by a
// stride of 0.
template <class Loop>
__global__ void __launch_bounds__(Loop::THREADS, Loop::CTAS)
    gemm_bias(const __grid_constant__ tile::Gemm<Loop> p, tile::Matrix<const float> bias) {
  const auto row = bias.template tiles<Loop::BM, Loop::BN>();
  Loop::run([&](auto& cta) {
    for (const auto [m, n] : cta.tiles(p.C, p.group_m)) {
      auto acc = cta.zeros();
      cta.pipeline(p.k_tiles, acc,
                   [&](auto& sum, int k) { dot(load(p.A, m, k), load(p.B, k, n), sum); });
      cta.store(p.C, m, n, leaky_relu(p.alpha * acc + load(row, m, n)));
    }
  });
}
// [/region bias]

// [region int8]
// C = A * B, int8 in and int32 out: dot is another instruction, the program is the same.
template <class Loop>
__global__ void __launch_bounds__(Loop::THREADS, Loop::CTAS)
    gemm_int8(const __grid_constant__ tile::Gemm<Loop> p) {
  Loop::run([&](auto& cta) {
    for (const auto [m, n] : cta.tiles(p.C, p.group_m)) {
      auto acc = cta.zeros();
      cta.pipeline(p.k_tiles, acc,
                   [&](auto& sum, int k) { dot(load(p.A, m, k), load(p.B, k, n), sum); });
      cta.store(p.C, m, n, acc);
    }
  });
}
// [/region int8]

// [region arranged]
// What each program gets of A, B and C: a row of tiles, a column of tiles, a tile.
struct Arranged {
  tile::Arrangement a, b, c;
};
constexpr Arranged arrange(int M, int N, int K, int BM, int BN, int BK) {
  const tile::Arrangement c = tile::matrix(M, N).tile(BM, BN);
  const int rows = c.level(0).axes[0].size, cols = c.level(0).axes[1].size;
  return {tile::matrix(M, K).tile(BM, BK).tile(1, -1).expand(-1, cols).squeeze(0).flatten(),
          tile::matrix(K, N).tile(BK, BN).tile(-1, 1).expand(rows, -1).squeeze(1).flatten(),
          c.flatten()};
}

// The application: it knows which program it is, and nothing of rows and columns.
template <class Loop>
__global__ void __launch_bounds__(Loop::THREADS, Loop::CTAS)
    gemm_arranged(const __grid_constant__ tile::Gemm<Loop> p, Arranged at) {
  const int program = blockIdx.x;
  Loop::run([&](auto& cta) {
    auto acc = cta.zeros();
    cta.pipeline(at.a.level(1).size(), acc, [&](auto& sum, int k) {
      dot(load(p.A, at.a.at(program, k)), load(p.B, at.b.at(program, k)), sum);
    });
    cta.store(p.C, at.c.at(program), p.alpha * acc);
  });
}
// [/region arranged]

}  // namespace examples
GEMM_BUILD_NAMESPACE_END
