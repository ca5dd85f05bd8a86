// Prints, as JSON, where each swizzle of device/swizzle.cuh puts the 16-byte chunks of a tile, and
// what it is for: how many wavefronts a read of one chunk column takes, without and with it.
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "device/swizzle.cuh"
#include "sim/warp_request.h"

namespace gemm {
namespace {

constexpr uint32_t ROWS = 8, CHUNK = 16;  // the pattern's period, and what ldmatrix and wgmma read

// Wavefronts of a request for the chunks at these offsets, one a lane.
int wavefronts_of(const std::vector<uint32_t>& offsets) {
  sim::WarpRequest r{};
  r.bytes = CHUNK;
  for (size_t lane = 0; lane < offsets.size(); ++lane) {
    r.lanes |= 1u << lane;
    r.address[lane] = offsets[lane];
  }
  return sim::wavefronts(r, sim::SharedAccess::load);
}

// A tile with rows of `span` bytes, kept in this mode.
nlohmann::ordered_json table(uint32_t span, Swizzle mode) {
  std::vector<std::vector<uint32_t>> rows(ROWS), columns(span / CHUNK);
  for (uint32_t row = 0; row < ROWS; ++row)
    for (uint32_t col = 0; col < span; col += CHUNK) {
      const uint32_t offset = swizzle(mode, row * span + col);
      rows[row].push_back(offset);
      columns[col / CHUNK].push_back(offset);
    }
  std::vector<int> wavefronts;
  for (const std::vector<uint32_t>& column : columns) wavefronts.push_back(wavefronts_of(column));
  return {{"row_bytes", span},
          {"swizzle", mode == Swizzle::none ? 0 : static_cast<int>(mode)},
          {"offsets", rows},  // in bytes, by row and chunk of the tile
          {"wavefronts_of_column", wavefronts}};
}

}  // namespace
}  // namespace gemm

int main() {
  using gemm::Swizzle;
  nlohmann::ordered_json tiles;
  for (const Swizzle mode : {Swizzle::b32, Swizzle::b64, Swizzle::b128})
    for (const Swizzle kept : {Swizzle::none, mode})
      tiles.push_back(gemm::table(static_cast<uint32_t>(mode), kept));
  fmt::print("{}\n", nlohmann::ordered_json{{"chunk", gemm::CHUNK}, {"tiles", tiles}}.dump());
}
