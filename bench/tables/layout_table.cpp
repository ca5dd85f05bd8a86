// Prints, as JSON, who does what, for figures: asked of the kernels and of the functions that they
// call, not drawn by hand.
//
//   layout_table v03_thread_tile/f32 ...
//
//   tiles      of each rung named: the block tile of C, and which of it each warp writes, and lanes
//              0 to 3 of warp 0; as rectangles [row, column, rows, columns]
//   fragments  of mma.sync m16n8k16: which lane holds which element in which half of which register
//   raster     the order in which grouped_tile visits grids of tiles
#include <fmt/format.h>

#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "device/fragments.cuh"
#include "device/mma.cuh"
#include "device/scheduler.cuh"
#include "harness/inspector.h"
#include "rung.h"

namespace gemm {
namespace {

using Json = nlohmann::ordered_json;
constexpr int LANES = 32, WARP = 32;

// Tiles
// -------------------------------------------------------------------------------------------------

// The elements of a rows x cols map that hold(value), in rectangles: runs of a row, joined with
// equal runs of the rows above.
template <class Holds>
Json rectangles(const std::vector<int>& map, int rows, int cols, int stride, Holds holds) {
  struct Run {
    int row, col, rows, cols;
  };
  std::vector<Run> done, open;
  for (int r = 0; r < rows; ++r) {
    std::vector<Run> here;
    for (int c = 0; c < cols; ++c) {
      if (!holds(map[r * stride + c])) continue;
      const int begin = c;
      while (c < cols && holds(map[r * stride + c])) ++c;
      here.push_back({r, begin, 1, c - begin});
    }
    for (const Run& above : open) {
      bool joined = false;
      for (Run& run : here)
        if (run.rows == 1 && run.row == r && run.col == above.col && run.cols == above.cols) {
          run = {above.row, above.col, above.rows + 1, above.cols};
          joined = true;
          break;
        }
      if (!joined) done.push_back(above);
    }
    open = here;
  }
  done.insert(done.end(), open.begin(), open.end());
  Json all = Json::array();
  for (const Run& run : done) all.push_back({run.row, run.col, run.rows, run.cols});
  return all;
}

Json tile(const std::string& wanted) {
  constexpr int SIZE = 512;
  const std::string name = wanted.substr(0, wanted.find('/'));
  const Rung* rung = nullptr;
  for (const Rung* r : rungs(Backend::sim_traced))
    if (r->name == name && to_string(r->dtype) == wanted.substr(name.size() + 1)) rung = r;
  if (rung == nullptr) throw std::runtime_error("no rung " + wanted);
  Problem p;
  p.dtype = rung->dtype;
  p.M = p.N = SIZE, p.K = 64;
  Inspector inspector(p);
  const sim::Written box = inspector.written(*rung, 0);
  const std::vector<int> owner = inspector.owners(*rung, 0);
  const int rows = static_cast<int>(box.row_end), cols = static_cast<int>(box.col_end);
  Json warps = Json::array(), lanes = Json::array();
  for (int warp = 0; warp < 1024 / WARP; ++warp) {
    Json area =
        rectangles(owner, rows, cols, SIZE, [&](int t) { return t >= 0 && t / WARP == warp; });
    if (!area.empty()) warps.push_back(area);
  }
  for (int lane = 0; lane < 4; ++lane)
    lanes.push_back(rectangles(owner, rows, cols, SIZE, [&](int t) { return t == lane; }));
  return {{"rung", name},   {"dtype", to_string(rung->dtype)},
          {"rows", rows},   {"cols", cols},
          {"warps", warps}, {"lanes", lanes}};
}

// Fragments
// -------------------------------------------------------------------------------------------------

constexpr int MMA_M = 16, MMA_N = 8, MMA_K = 16;
struct Fragments {
  uint32_t a[LANES][4], b[LANES][2];
  float row[LANES][4], col[LANES][4];
};

// What a warp's registers hold after the functions that kernels call, of matrices whose elements say
// where they stand.
void find_fragments(Fragments* out) {
  alignas(1024) __shared__ half sA[MMA_M][MMA_K], sB[MMA_K][2 * MMA_N];
  const int lane = threadIdx.x;
  const auto fill = [&](auto a, auto b) {
    for (int i = lane; i < MMA_M * MMA_K; i += LANES)
      *swizzled(sA, i / MMA_K, i % MMA_K) = half(float(a(i / MMA_K, i % MMA_K)));
    for (int i = lane; i < MMA_K * 2 * MMA_N; i += LANES)
      *swizzled(sB, i / (2 * MMA_N), i % (2 * MMA_N)) =
          half(float(b(i / (2 * MMA_N), i % (2 * MMA_N))));
    __syncwarp();
  };
  uint32_t rA[4], rB[2][2];
  fill([](int m, int k) { return m * MMA_K + k; },
       [](int k, int n) { return k * MMA_N + n % MMA_N; });
  load_a(rA, sA, 0, 0);
  load_b(rB, sB, 0, 0);
  memcpy(out->a[lane], rA, sizeof rA);
  memcpy(out->b[lane], rB[0], sizeof rB[0]);
  __syncwarp();
  // Products that are the number of their row, or of their column.
  for (const bool rows : {true, false}) {
    fill([&](int m, int k) { return k > 0  ? 0
                                    : rows ? m
                                           : 1; },
         [&](int k, int n) { return k > 0  ? 0
                                    : rows ? 1
                                           : n; });
    load_a(rA, sA, 0, 0);
    load_b(rB, sB, 0, 0);
    float d[4] = {};
    mma<half>(d, rA, rB[0]);
    memcpy(rows ? out->row[lane] : out->col[lane], d, sizeof d);
    __syncwarp();
  }
}

float half_of(uint32_t word, int which) {
  const uint16_t bits = static_cast<uint16_t>(word >> 16 * which);
  half x;
  memcpy(&x, &bits, sizeof x);
  return float(x);
}

// By element: [lane, register, half].
Json fragments() {
  Fragments f;
  sim::launch([&] { find_fragments(&f); }, {1, dim3(LANES), 0, 1});
  std::map<std::string, std::vector<std::vector<Json>>> map;
  map["A"].assign(MMA_M, std::vector<Json>(MMA_K));
  map["B"].assign(MMA_K, std::vector<Json>(MMA_N));
  map["D"].assign(MMA_M, std::vector<Json>(MMA_N));
  for (int lane = 0; lane < LANES; ++lane)
    for (int r = 0; r < 4; ++r) {
      for (int h = 0; h < 2; ++h) {
        const int a = static_cast<int>(half_of(f.a[lane][r], h));
        map["A"][a / MMA_K][a % MMA_K] = {lane, r, h};
        if (r >= 2) continue;
        const int b = static_cast<int>(half_of(f.b[lane][r], h));
        map["B"][b / MMA_N][b % MMA_N] = {lane, r, h};
      }
      map["D"][static_cast<int>(f.row[lane][r])][static_cast<int>(f.col[lane][r])] = {lane, r, 0};
    }
  return map;
}

// Raster
// -------------------------------------------------------------------------------------------------

template <int GROUP_M>
Json raster(int tiles_m, int tiles_n) {
  Json order = Json::array();
  for (int tile = 0; tile < tiles_m * tiles_n; ++tile) {
    const TileIndex at = grouped_tile<GROUP_M>(tile, tiles_m, tiles_n);
    order.push_back({at.m, at.n});
  }
  return {{"group_m", GROUP_M}, {"tiles_m", tiles_m}, {"tiles_n", tiles_n}, {"order", order}};
}

}  // namespace
}  // namespace gemm

int main(int argc, char** argv) {
  using namespace gemm;
  try {
    Json tiles = Json::array();
    for (int i = 1; i < argc; ++i) tiles.push_back(tile(argv[i]));
    const Json rasters = {raster<1>(4, 4),   raster<2>(4, 4),   raster<1>(32, 16),
                          raster<8>(32, 16), raster<1>(64, 32), raster<8>(64, 32)};
    fmt::print("{}\n",
               Json{{"tiles", tiles}, {"fragments", fragments()}, {"raster", rasters}}.dump());
  } catch (const std::exception& e) {
    fmt::print(stderr, "layout_table: {}\n", e.what());
    return 1;
  }
}
