// v13 tuned FFMA: a tile for every shape, and no idle SM in the last wave.
//
// before: v12 computes a tile a block: 4096 x 4096 makes 512 tiles, 3.9 waves on 132 SMs that take
//         the time of 4; 2304 x 2304 makes 1.2 waves that take the time of 2, and 1024 fills a
//         quarter of one
// idea:   stream-K: the tiles that fill no wave are cut along K into one run of slices for every
//         SM; a second kernel adds up the parts. Small problems take small tiles, whose slices are
//         shared out among groups of warps
// watch:  the parts go through L2: 17 to 34 MB, 25 us, too much for small matrices; --tune measures
//         every variant on the card, --explain says which runs and why
// needs:  sm_80; operands whose rows are not whole aligned 16-byte groups are repacked first
#include "device/ffma_loop.cuh"
#include "device/repack.cuh"
#include "rung.h"

namespace {
using namespace gemm;

template <class Loop>
__global__ void __launch_bounds__(Loop::Tile::THREADS, Loop::Tile::BLOCKS)
    gemm_v13(GemmArgs<float> p) {
  const int tiles_n = cdiv(p.N, Loop::Tile::BN);
  const int bm = blockIdx.x / tiles_n, bn = blockIdx.x % tiles_n;
  typename Loop::Sums acc = {};
  Loop::sum(p, bm, bn, 0, p.K, acc);
  if (int(threadIdx.x) < Loop::Tile::GROUP) Loop::store(p, bm, bn, acc);
}

// [region idea]
// Whole waves of tiles a block each; if STREAM, what is left over as runs of K slices.
template <class Tile, bool STREAM, bool WIDE>
void launch_tiles(const GemmArgs<float>& p, Stream stream) {
  constexpr size_t SMEM = Tile::STAGES * Tile::STAGE * sizeof(float);
  const int64_t tiles = int64_t{cdiv(p.M, Tile::BM)} * cdiv(p.N, Tile::BN);
  const int streamed = STREAM && p.K > 0 ? int(tiles % (sm_count() * Tile::BLOCKS)) : 0;
  gemm::launch(gemm_v13<FfmaLoop<Tile, WIDE, 1, 9>>, tiles - streamed, dim3(Tile::THREADS),
               {.smem = SMEM}, stream, p);
  if constexpr (STREAM)
    if (streamed > 0)
      launch_stream_k<FfmaLoop<Tile, WIDE, 0, 8>>(p, int(tiles - streamed), streamed, SMEM, stream);
}
// [/region idea]

using Row = Tiling<32, 128, 64, 8, 4, 3>;     // for edges of a few rows
using Column = Tiling<128, 32, 64, 8, 4, 3>;  // and of a few columns
constexpr int THIN = 32;
// Rows or columns too few for another row or column of these tiles.
template <int TILE>
int thin_edge(int size) {
  return TILE > THIN && size > TILE && size % TILE <= THIN ? size % TILE : 0;
}

template <class Tile, bool STREAM, bool WIDE>
void launch_parts(GemmArgs<float> p, Stream stream) {
  const int m = thin_edge<Tile::BM>(p.M), n = thin_edge<Tile::BN>(p.N);
  GemmArgs<float> row = p, column = p;
  row.M = m, row.A += (p.M - m) * p.lda, row.C += (p.M - m) * p.ldc;
  p.M = column.M = p.M - m;
  column.N = n, column.B += p.N - n, column.C += p.N - n;
  p.N -= n;
  launch_tiles<Tile, STREAM, WIDE>(p, stream);
  if (m > 0) launch_tiles<Row, true, WIDE>(row, stream);
  if (n > 0) launch_tiles<Column, true, WIDE>(column, stream);
}

template <class Tile, bool STREAM = false>
void launch(const GemmArgs<float>& call, Stream stream) {
  const Repacked<float> A(call.A, call.M, call.K, call.lda, stream, /*whole_groups=*/true);
  const Repacked<float> B(call.B, call.K, call.N, call.ldb, stream, /*whole_groups=*/true);
  GemmArgs<float> p = call;
  p.A = A.data, p.lda = A.ld, p.B = B.data, p.ldb = B.ld;
  if (p.K == 0) p.A = p.B = nullptr, p.lda = p.ldb = 0;  // copies of nothing want aligned rows too
  const bool wide = reinterpret_cast<uintptr_t>(p.C) % 16 == 0 && p.ldc % 4 == 0 && p.N % 4 == 0;
  (wide ? launch_parts<Tile, STREAM, true> : launch_parts<Tile, STREAM, false>)(p, stream);
}

using Large = Tiling<128, 256, 16, 8, 16, 4>;        // of 53 TFLOPS where whole waves fill the card
using Middle = Tiling<128, 128, 16, 8, 8, 3, 1, 2>;  // of 51
using Small = Tiling<64, 64, 32, 8, 8, 4, 4, 2>;     // of 42: four groups of warps share a slice
using SmallStream = Tiling<64, 64, 32, 8, 8, 4, 4, 1>;  // one block an SM: two would spill

// `choose` knows the first five, --tune measures all.
const Variant<float> VARIANTS[] = {
    {"128x256x16 8x16", launch<Large>},
    {"128x256x16 8x16 stream-K", launch<Large, true>},
    {"128x128x16 8x8", launch<Middle>},
    {"64x64x32 8x8 groups 4", launch<Small>},
    {"64x64x32 8x8 groups 4 stream-K", launch<SmallStream, true>},
    {"128x128x32 8x8", launch<Tiling<128, 128, 32, 8, 8, 3>>},
    {"64x128x32 8x8", launch<Tiling<64, 128, 32, 8, 8, 3, 1, 2>>},
    {"128x64x32 8x8", launch<Tiling<128, 64, 32, 8, 8, 3, 1, 2>>},
    {"64x64x64 8x4", launch<Tiling<64, 64, 64, 8, 4, 3, 1, 2>>},
    {"32x128x64 8x4", launch<Tiling<32, 128, 64, 8, 4, 3>>},
    {"128x32x64 8x4", launch<Tiling<128, 32, 64, 8, 4, 3>>},
    {"64x32x64 8x4", launch<Tiling<64, 32, 64, 8, 4, 3, 1, 2>>},
    {"32x64x64 8x4", launch<Tiling<32, 64, 64, 8, 4, 3, 1, 2>>},
    {"128x128x8 8x8", launch<Tiling<128, 128, 8, 8, 8, 4, 1, 2>>},
    {"32x32x32 8x4", launch<Tiling<32, 32, 32, 8, 4, 4>>},
};

// Microseconds on an H200, from the rate of a full card and the waves; stream-K has no last wave,
// and 28 us for its parts. Other cards differ in all of them, but less in the order.
template <class Tile>
double estimate(const GemmArgs<float>& p, int sms, double tflops, bool stream) {
  const double tiles = double(cdiv(p.M - thin_edge<Tile::BM>(p.M), Tile::BM)) *
                       cdiv(p.N - thin_edge<Tile::BN>(p.N), Tile::BN);
  const double tile_us = 2e-6 * Tile::BM * Tile::BN * p.K / (tflops / sms);  // alone on an SM
  if (stream) return tiles / sms * tile_us + 28;
  const double rounds = double(int64_t((tiles + sms - 1) / sms));  // tiles of the busiest SM
  return rounds * tile_us + 5;
}

Choice choose(const GemmArgs<float>& p, int sms) {
  const double us[] = {estimate<Large>(p, sms, 53, false), estimate<Large>(p, sms, 53, true),
                       estimate<Middle>(p, sms, 51, false), estimate<Small>(p, sms, 42, false),
                       estimate<SmallStream>(p, sms, 40, true)};
  int best = 0;
  for (int i = 1; i < 5; ++i)
    if (us[i] < us[best]) best = i;
  const auto rounded = [](double x) { return std::to_string(int64_t(x + 0.5)); };
  return {best, "estimated " + rounded(us[best]) + " us on " + std::to_string(sms) +
                    " SMs; 128x256: " + rounded(us[0]) + " us, with stream-K " + rounded(us[1])};
}

const Registration rung({.prev = "v12",
                         .idea = "tuned FFMA: stream-K, and a tile for every shape",
                         .needs = {.sm = 80}},
                        {f32(VARIANTS, choose)});

}  // namespace
