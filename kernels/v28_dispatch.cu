// v28 dispatch: for every shape the fastest kernel.
//
// before: v24 to v27w each pass cuBLAS on some shapes; on others one is up to 10x slower than
//         another (v25 on large results), or 10 % (v26 where v24's waves are nearly full)
// idea:   what a library adds to its kernels is a rule. v25 for results that are flat, or so few
//         that small tiles make no more CTAs than there are SMs; for others the kernel with the
//         least makespan. In f32, v13 or v13s, whichever is estimated to take less time. Each of
//         them then chooses its tile
// watch:  the rule is read off measurements on one GPU; --explain says what it decides, --tune
//         measures them all and keeps what won, for this GPU
// needs:  sm_90a, as all of them
#include "device/b_stationary.cuh"
#include "device/ffma_costs.h"
#include "device/multicast.cuh"
#include "device/persistent.cuh"
#include "device/row_panels.cuh"
#include "rung.h"

namespace {
using namespace gemm;

template <class T>
const Variant<T> VARIANTS[] = {
    {"v24", [](const GemmArgs<T>& p, Stream stream) { launch_rung("v24", p, stream); }},
    {"v24r", [](const GemmArgs<T>& p, Stream stream) { launch_rung("v24r", p, stream); }},
    {"v25", [](const GemmArgs<T>& p, Stream stream) { launch_rung("v25", p, stream); }},
    {"v26", [](const GemmArgs<T>& p, Stream stream) { launch_rung("v26", p, stream); }},
    {"v27", [](const GemmArgs<T>& p, Stream stream) { launch_rung("v27", p, stream); }},
    {"v27w", [](const GemmArgs<T>& p, Stream stream) { launch_rung("v27w", p, stream); }}};

// Cost of the transposing epilogue of a CTA's last tile in v27 and v27w, in elements of C. Measured
// at 2048 on an H200, where all else is equal: 1 % of the time.
constexpr double LAST_TILE_TRANSPOSE_COST = 250;

// v24r's makespan, in the unit of TileChoice::makespan. Measured on an H200, at 2048 to 16384 and
// 28672 x 8192.
//   COST    of one element of C, by the number of k-tiles. 4, 6 and 8 are whole passes through the
//           pipeline; with others the last k-tiles are zeros
//   FIRST   of loading the first column panel of B, in waves
//   1.08    where all CTAs go on to their next column panel at the same time
double b_stationary_makespan(int M, int N, int K, int sms) {
  constexpr double COST[] = {2, 2, 1.1, 0.93, 0.85, 1.0, 0.91, 1.07, 0.97}, FIRST = 0.45;
  const int col_panels = cdiv(N, 128);
  const int64_t tiles = int64_t{cdiv(M, 128)} * col_panels;
  const double cost = COST[cdiv(K, 64)] * (col_panels > sms ? 1.08 : 1);
  return cost * (double((tiles + sms - 1) / sms) + FIRST) * 128 * 128;
}

// [region idea]
template <class T>
Choice choose(const GemmArgs<T>& p, int sms) {
  const int longer = std::max(p.M, p.N), shorter = std::min(p.M, p.N);
  const int64_t small = int64_t{cdiv(longer, 64)} * cdiv(shorter, 16) * 2;  // v25's blocks
  if (shorter <= 64) return {2, "v25: " + std::to_string(shorter) + " rows or columns are flat"};
  if (small <= sms) return {2, "v25: " + std::to_string(small) + " small blocks in one wave"};

  // Where rows of A or B straddle cache lines, L2 is asked twice for each row of a tile. v26 then
  // takes 1.75 times its makespan, and v27w, in clusters, 1.35 times; v24's costs include it.
  const bool straddles = straddles_lines(p);
  const TileChoice data_parallel = choose_data_parallel_tile(p, sms);           // v24
  const TileChoice stream_k = choose_tile(p.M, p.N, p.K, STREAM_K_TILES, sms);  // v26
  const RowPanelChoice row_panels = choose_row_panels(
      p.M, p.N, straddles ? row_panels_256(2) : ROW_PANELS_128, sms);  // v27, v27w
  const double stream_k_makespan = stream_k.makespan * (straddles ? 1.75 : 1);
  const double row_panels_makespan =
      row_panels.makespan(sms) * (straddles ? 1.35 : 1) + LAST_TILE_TRANSPOSE_COST;
  // Where K is short, v26's fixup and v27's transposing epilogue cost more than the waves that they
  // save. A CTA's only tile is stored straight from registers, so one wave of v27 is still allowed.
  const double least =
      p.K < 1024 ? data_parallel.makespan : std::min(data_parallel.makespan, stream_k_makespan);
  const bool uneven = allows_row_panels(p) && (p.K >= 1024 || row_panels.waves(sms) <= 1);
  const double b_stationary =
      allows_b_stationary(p) ? b_stationary_makespan(p.M, p.N, p.K, sms) : least;  // v24r
  if (uneven && row_panels_makespan < std::min(least, b_stationary))
    return {straddles ? 5 : 4, (straddles ? "v27w: " : "v27: ") + row_panels.why(sms)};
  if (b_stationary < least)
    return {1, "v24r: a column panel of B stays, for K is " + std::to_string(p.K)};
  if (least < data_parallel.makespan) return {3, "v26: " + stream_k.choice.why};
  return {0, "v24: " + data_parallel.choice.why};
}
// [/region idea]

const Variant<float> F32_VARIANTS[] = {
    {"v13", [](const GemmArgs<float>& p, Stream stream) { launch_rung("v13", p, stream); }},
    {"v13s", [](const GemmArgs<float>& p, Stream stream) { launch_rung("v13s", p, stream); }}};

Choice choose_f32(const GemmArgs<float>& p, int sms) {
  const double whole = best_whole_tile(p, sms, [](int) { return true; }).us;
  const double split = best_split_tile(p, sms).us;
  const auto rounded = [](double us) { return std::to_string(int64_t(us + 0.5)) + " us"; };
  return {split < whole, "estimated: v13 " + rounded(whole) + ", v13s " + rounded(split)};
}

const Registration rung({.prev = "v24",
                         .idea = "dispatch: for every shape the fastest kernel",
                         .needs = {.sm = 90, .exact_arch = true, .transposed = true}},
                        {f16(VARIANTS<half>, choose), bfloat16(VARIANTS<bf16>, choose),
                         f32(F32_VARIANTS, choose_f32)});

}  // namespace
