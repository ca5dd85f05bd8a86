// How wgmma adds: the simulator against what cards computed of the same fragments, bit for bit.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/limits/wgmma_fragments.cuh"
#include "rung.h"

namespace gemm {
namespace {

// (tile, INSTRUCTIONS, ROWS, COLS), as the simulator has it.
std::vector<float> simulate(int format) {
  const fragments::Format& f = fragments::FORMATS[format];
  std::vector<uint8_t> a, b;
  std::vector<float> sums;
  for (int i = 0; i < fragments::tiles_of(f); ++i) {
    const fragments::Tile tile = fragments::tile_of(f, i);
    a.insert(a.end(), tile.a.begin(), tile.a.end());
    b.insert(b.end(), tile.b.begin(), tile.b.end());
    sums.insert(sums.end(), tile.sums.begin(), tile.sums.end());
  }
  std::vector<float> results(sums.size() * fragments::INSTRUCTIONS);
  with_format(format, [&](auto t) {
    gemm::launch(multiply_fragments<decltype(t)>, fragments::tiles_of(f), dim3(FRAGMENT_THREADS),
                 {.smem = FRAGMENT_SMEM}, nullptr, a.data(), b.data(), sums.data(), results.data());
  });
  return results;
}

class WgmmaSums : public testing::TestWithParam<int> {};

// A code's value by the definition of its format, and the power of two at or below a number, which
// of 0 is that of the smallest normal one.
double value_of(const fragments::Format& f, const uint8_t* bytes) {
  uint32_t code = 0;
  for (int i = 0; i < f.bytes; ++i) code |= uint32_t{bytes[i]} << 8 * i;
  if (f.bytes == 4) code >>= 13;
  const int field = int(code >> f.mantissa_bits) & ((1 << f.exponent_bits) - 1);
  const uint32_t fraction = code & ((1u << f.mantissa_bits) - 1);
  const bool top = field == (1 << f.exponent_bits) - 1;
  if (f.has_infinity && top) return fraction == 0 ? INFINITY : NAN;
  if (!f.has_infinity && top && fraction == (1u << f.mantissa_bits) - 1) return NAN;
  const double magnitude = std::ldexp(field == 0 ? fraction : fraction + (1u << f.mantissa_bits),
                                      std::max(field, 1) - f.bias() - f.mantissa_bits);
  return code >> (f.exponent_bits + f.mantissa_bits) ? -magnitude : magnitude;
}

double power_of(const fragments::Format& f, double x) {
  return std::ldexp(1, std::max(x == 0 ? -1000 : std::ilogb(x), 1 - f.bias()));
}

// What is cut is at most a unit of the last bit that is kept, below the largest term, for each term.
TEST_P(WgmmaSums, AreNearTheExactOnes) {
  const fragments::Format& f = fragments::FORMATS[GetParam()];
  const double kept = f.bytes == 1 ? 13 : 22;
  const std::vector<float> results = simulate(GetParam());
  for (int i = 0; i < fragments::tiles_of(f); ++i) {
    const fragments::Tile tile = fragments::tile_of(f, i);
    if (tile.kind == fragments::Kind::specials || tile.kind == fragments::Kind::overflowing)
      continue;
    for (int row = 0; row < fragments::ROWS; ++row)
      for (int col = 0; col < fragments::COLS; ++col) {
        double sum = tile.sums[row * fragments::COLS + col], largest = std::abs(sum);
        for (int k = 0; k < f.k(); ++k) {
          const double a = value_of(f, &tile.a[row * fragments::K_BYTES + k * f.bytes]);
          const double b = value_of(f, &tile.b[col * fragments::K_BYTES + k * f.bytes]);
          sum += a * b;
          largest = std::max({largest, std::abs(a * b), power_of(f, a) * power_of(f, b)});
        }
        const float got = results[size_t(i) * fragments::INSTRUCTIONS * fragments::RESULTS +
                                  row * fragments::COLS + col];
        const double bound = (f.k() + 2) * std::ldexp(largest, -int(kept)) + 1e-38;
        ASSERT_TRUE(std::abs(got - sum) <= bound)
            << fragments::KIND_NAMES[int(tile.kind)] << " row " << row << " column " << col << ": "
            << got << " instead of " << sum;
      }
  }
}

// The simulator's bits are those of every card's file. NaN is NaN.
TEST_P(WgmmaSums, AreTheCardsBitForBit) {
  const fragments::Format& f = fragments::FORMATS[GetParam()];
  if (f.bytes > 1) GTEST_SKIP() << "added in float, in the order of k: not the card's bits";
  const std::vector<float> results = simulate(GetParam());
  int cards = 0;
  for (const auto& folder : std::filesystem::directory_iterator(RESULTS_FOLDER)) {
    std::ifstream in(folder.path() / "fp8_bits.json");
    if (!in) continue;
    ++cards;
    const nlohmann::json file = nlohmann::json::parse(in);
    const nlohmann::json& tiles = file.at("results").at(f.name);
    constexpr size_t EACH = fragments::INSTRUCTIONS * fragments::RESULTS;
    for (int i = 0; i < fragments::tiles_of(f); ++i) {
      const std::string hex = tiles.at(i);
      ASSERT_EQ(hex.size(), EACH * 8);
      for (size_t at = 0; at < EACH; ++at) {
        const auto card =
            std::bit_cast<float>(uint32_t(std::stoul(hex.substr(at * 8, 8), nullptr, 16)));
        const float got = results[i * EACH + at];
        if (std::isnan(card) && std::isnan(got)) continue;
        ASSERT_EQ(std::bit_cast<uint32_t>(got), std::bit_cast<uint32_t>(card))
            << folder.path().filename() << ", " << fragments::KIND_NAMES[i % fragments::KINDS]
            << ", instruction " << at / fragments::RESULTS << ", element "
            << at % fragments::RESULTS << ": " << got << " instead of " << card;
      }
    }
  }
  if (cards == 0) GTEST_SKIP() << "no card's fp8_bits.json in plots/results";
}

INSTANTIATE_TEST_SUITE_P(Formats, WgmmaSums, testing::Range(0, int(std::size(fragments::FORMATS))),
                         [](const auto& p) { return fragments::FORMATS[p.param].name; });

}  // namespace
}  // namespace gemm
