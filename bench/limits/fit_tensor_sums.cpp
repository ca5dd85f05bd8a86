// Which model of a tensor core's sum gives the bits that a card gave:
//   build/fit_tensor_sums plots/results/<gpu>/fp8_bits.json
// For each format it tries all parameters of src/sim/tensor_sum.h and prints the best, and where
// they still differ.
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <tuple>
#include <vector>

#include "sim/tensor_sum.h"
#include "wgmma_fragments.cuh"

namespace {
using namespace gemm;
using namespace gemm::fragments;
using sim::TensorSum;
using sim::TensorTerm;

// One sum: products and accumulator in, accumulator out.
struct Case {
  Kind kind;
  int instruction;
  std::vector<TensorTerm> products;
  float before;
  uint32_t after;
};

// A code's significand and exponent; false of infinity and NaN.
bool decode(const Format& f, const uint8_t* bytes, TensorTerm& t) {
  uint32_t code = 0;
  for (int i = 0; i < f.bytes; ++i) code |= uint32_t{bytes[i]} << 8 * i;
  if (f.bytes == 4) code >>= 13;
  const int field = static_cast<int>(code >> f.mantissa_bits) & ((1 << f.exponent_bits) - 1);
  const int64_t fraction = code & ((1u << f.mantissa_bits) - 1);
  const bool top = field == (1 << f.exponent_bits) - 1;
  if (top && (f.has_infinity || fraction == (1 << f.mantissa_bits) - 1)) return false;
  const int64_t magnitude = field == 0 ? fraction : fraction + (1 << f.mantissa_bits);
  t = {code >> (f.exponent_bits + f.mantissa_bits) ? -magnitude : magnitude,
       std::max(field, 1) - f.bias(), f.mantissa_bits};
  return true;
}

float float_of(uint32_t bits) { return std::bit_cast<float>(bits); }

// All cases without infinity and NaN. The second instruction's accumulator is what the card had.
std::vector<Case> cases_of(const Format& f, const nlohmann::json& tiles) {
  std::vector<Case> cases;
  for (int index = 0; index < tiles_of(f); ++index) {
    const Tile tile = tile_of(f, index);
    const std::string hex = tiles.at(index);
    const auto result = [&](int instruction, int i) {
      const size_t at = static_cast<size_t>(instruction) * RESULTS + i;
      return static_cast<uint32_t>(std::stoul(hex.substr(at * 8, 8), nullptr, 16));
    };
    for (int instruction = 0; instruction < INSTRUCTIONS; ++instruction)
      for (int i = 0; i < RESULTS; ++i) {
        Case c{tile.kind, instruction, {}, 0, result(instruction, i)};
        c.before = instruction == 0 ? tile.sums[i] : float_of(result(instruction - 1, i));
        bool finite = std::isfinite(c.before);
        for (int k = 0; k < f.k(); ++k) {
          TensorTerm a{}, b{};
          const int row = instruction * ROWS + i / COLS, col = instruction * COLS + i % COLS;
          finite = decode(f, &tile.a[row * K_BYTES + k * f.bytes], a) &&
                   decode(f, &tile.b[col * K_BYTES + k * f.bytes], b) && finite;
          c.products.push_back(
              {a.significand * b.significand, a.exponent + b.exponent, a.fraction + b.fraction});
        }
        if (finite) cases.push_back(std::move(c));
      }
  }
  return cases;
}

bool right(const TensorSum& model, const Case& c) {
  return std::bit_cast<uint32_t>(sim::add_products(model, c.products, c.before)) == c.after;
}

void fit(const Format& f, const std::vector<Case>& cases) {
  std::vector<std::tuple<size_t, int, int, int, int>> tried;
  for (const int group : {f.k(), f.k() / 2, f.k() / 4})
    for (int fraction = 10; fraction <= 28; ++fraction)
      for (const int result : {fraction - 1, fraction, fraction + 1, 23})
        for (const bool zeros : {false, true}) {
          if (result > 23) continue;
          const TensorSum model{fraction, result, group, zeros};
          size_t wrong = 0;
          for (size_t i = 0; i < cases.size(); ++i) {
            wrong += !right(model, cases[i]);
            if (i == 999 && wrong > 700) {
              wrong = cases.size();
              break;
            }
          }
          tried.emplace_back(wrong, fraction, result, group, zeros);
        }
  std::sort(tried.begin(), tried.end());
  tried.erase(std::unique(tried.begin(), tried.end()), tried.end());
  std::printf("%s: %zu sums\n", f.name, cases.size());
  for (size_t i = 0; i < 4 && i < tried.size(); ++i) {
    const auto [wrong, fraction, result, group, zeros] = tried[i];
    std::printf("  %6zu differ: fraction_bits %d, result_bits %d, group %d, zeros_align %d\n",
                wrong, fraction, result, group, zeros);
  }
  const auto [wrong, fraction, result, group, zeros] = tried.front();
  const TensorSum best{fraction, result, group, zeros != 0};
  std::map<int, int> shown;
  std::map<int, size_t> differ;
  for (const Case& c : cases)
    if (!right(best, c)) {
      ++differ[static_cast<int>(c.kind)];
      if (++shown[static_cast<int>(c.kind)] > 3) continue;
      const float model = sim::add_products(best, c.products, c.before);
      double exact = c.before;
      int largest = -1000;
      for (const TensorTerm& t : c.products) {
        exact += std::ldexp(static_cast<double>(t.significand), t.exponent - t.fraction);
        if (t.significand != 0) largest = std::max(largest, t.exponent);
      }
      std::printf(
          "    %-12s #%d before %a: card %a (%08x), model %a, exact %a, largest product 2^%d\n",
          KIND_NAMES[static_cast<int>(c.kind)], c.instruction, c.before, float_of(c.after), c.after,
          model, exact, largest);
    }
  for (const auto& [kind, count] : differ)
    std::printf("    %s: %zu differ\n", KIND_NAMES[kind], count);
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 2) {
    std::fprintf(stderr, "fit_tensor_sums: takes one file, of fp8_bits\n");
    return 2;
  }
  const nlohmann::json file = nlohmann::json::parse(std::ifstream(arguments[1]));
  for (const Format& f : FORMATS) fit(f, cases_of(f, file.at("results").at(f.name)));
}
