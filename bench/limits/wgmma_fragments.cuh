// Fragments that show how wgmma adds, bit by bit: inputs made from a seed, and the kernel that
// multiplies them. fp8_bits runs it on a card; a test replays what the card gave in the simulator.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "device/dynamic_shared.cuh"
#include "device/ptx/tma.cuh"
#include "device/ptx/wgmma.cuh"
#include "device/wgmma_descriptor.cuh"
#include "harness/inputs.h"

namespace gemm::fragments {

constexpr int ROWS = 64, COLS = 8, K_BYTES = 32;  // of one m64n8 instruction
constexpr int RESULTS = ROWS * COLS;              // of a tile
constexpr int INSTRUCTIONS = 2;                   // one after the other, into one accumulator
constexpr int ROUNDS_FP8 = 2, ROUNDS = 1;         // tiles of each kind

// A type of A and B as its codes are made.
struct Format {
  const char* name;
  int bytes, exponent_bits, mantissa_bits;
  bool has_infinity;
  int rounds;
  int k() const { return K_BYTES / bytes; }
  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  int largest_exponent() const { return (1 << exponent_bits) - (has_infinity ? 2 : 1); }
};
constexpr Format FORMATS[] = {{"e4m3", 1, 4, 3, false, ROUNDS_FP8},
                              {"e5m2", 1, 5, 2, true, ROUNDS_FP8},
                              {"f16", 2, 5, 10, true, ROUNDS},
                              {"bf16", 2, 8, 7, true, ROUNDS},
                              {"tf32", 4, 8, 10, true, ROUNDS}};

// What a tile is to show. `specials` last: whoever compares bits need not compare NaNs.
enum class Kind {
  any,           // all finite codes; the accumulator is zero
  any_with_sum,  // the same, with an accumulator near the products
  narrow,        // products of one or two exponents; accumulators 2^12 above to 2^12 below
  sparse,        // most products are zero
  cancelling,    // the second half of k takes away the first, but for one product
  powers,        // powers of two far apart, accumulators that use all 24 bits or one
  subnormal,     // subnormal codes, tiny accumulators
  no_products,   // products of zero, accumulators of every bit pattern but NaN and infinity
  one_large,     // one large product and many small ones
  large_sum,     // an accumulator far above the products
  overflowing,   // the largest codes, accumulators near the largest float
  positive,      // positive numbers of one magnitude
  specials,      // NaN and infinity among the codes and accumulators
  COUNT
};
constexpr const char* KIND_NAMES[] = {
    "any",         "any_with_sum", "narrow",    "sparse",      "cancelling", "powers",  "subnormal",
    "no_products", "one_large",    "large_sum", "overflowing", "positive",   "specials"};
constexpr int KINDS = static_cast<int>(Kind::COUNT);
static_assert(std::size(KIND_NAMES) == KINDS);

inline int tiles_of(const Format& f) { return KINDS * f.rounds; }

// Random numbers of one tile.
class Random {
 public:
  explicit Random(uint64_t seed) : seed_(seed) {}
  uint64_t bits() { return mix(seed_, next_++); }
  int below(int n) { return static_cast<int>(bits() % static_cast<uint64_t>(n)); }
  int between(int least, int most) { return least + below(most - least + 1); }
  bool one_in(int n) { return below(n) == 0; }

 private:
  uint64_t seed_, next_ = 0;
};

// A, B and the accumulators of a tile: for each instruction A (ROWS, K) and B (COLS, K) as bytes;
// accumulators (ROWS, COLS).
struct Tile {
  Kind kind;
  std::vector<uint8_t> a, b;  // (INSTRUCTIONS, ROWS or COLS, K_BYTES)
  std::vector<float> sums;
};

class TileMaker {
 public:
  TileMaker(const Format& f, int index)
      : f_(f), random_(1000 * (&f - FORMATS) + index), kind_(static_cast<Kind>(index % KINDS)) {}

  Tile make() {
    Tile tile{kind_, {}, {}, {}};
    for (int i = 0; i < INSTRUCTIONS; ++i) {
      const int special_k = random_.below(f_.k());
      for (int row = 0; row < ROWS; ++row) append(tile.a, codes(special_k, false));
      for (int col = 0; col < COLS; ++col) append(tile.b, codes(special_k, true));
    }
    for (int i = 0; i < RESULTS; ++i) tile.sums.push_back(sum());
    return tile;
  }

 private:
  // In braces, whose values are computed from left to right: so do all compilers the same.
  struct Parts {
    bool negative;
    int exponent;
    uint32_t mantissa;
  };
  uint32_t code(Parts parts) const {
    auto [negative, exponent, mantissa] = parts;
    exponent = std::clamp(exponent, 0, f_.largest_exponent());
    mantissa &= (1u << f_.mantissa_bits) - 1;
    // e4m3's NaN takes the place of its largest mantissa.
    if (!f_.has_infinity && exponent == f_.largest_exponent() &&
        mantissa == (1u << f_.mantissa_bits) - 1)
      --mantissa;
    return uint32_t{negative} << (f_.exponent_bits + f_.mantissa_bits) |
           static_cast<uint32_t>(exponent) << f_.mantissa_bits | mantissa;
  }
  // Exponents around 1.0 where a type has more of them than a sum could hold.
  int any_exponent() {
    if (f_.exponent_bits < 8) return random_.between(0, f_.largest_exponent());
    return random_.between(f_.bias() - 16, f_.bias() + 16);
  }
  uint32_t mantissa() { return static_cast<uint32_t>(random_.bits() >> 32); }
  uint32_t any_code() { return code({random_.one_in(2), any_exponent(), mantissa()}); }
  uint32_t near_one(int spread) {
    return code({random_.one_in(2), f_.bias() + random_.between(-spread, spread), mantissa()});
  }

  // K codes of a row of A or a column of B.
  std::vector<uint32_t> codes(int special_k, bool is_b) {
    const int k_count = f_.k();
    const uint32_t sign = 1u << (f_.exponent_bits + f_.mantissa_bits);
    std::vector<uint32_t> all(k_count);
    const int spread = random_.between(0, 1);
    for (int k = 0; k < k_count; ++k) {
      uint32_t& c = all[k];
      switch (kind_) {
        case Kind::any:
        case Kind::any_with_sum:
          c = any_code();
          break;
        case Kind::narrow:
        case Kind::large_sum:
          c = near_one(spread);
          break;
        case Kind::sparse:
          c = random_.one_in(4) ? any_code() : random_.one_in(2) ? 0 : sign;
          break;
        case Kind::cancelling:
          c = near_one(3);
          if (k >= k_count / 2) c = all[k - k_count / 2] ^ (is_b ? sign : 0);
          break;
        case Kind::powers:
          c = code({random_.one_in(2), any_exponent(), 0});
          if (random_.one_in(2)) c = 0;
          break;
        case Kind::subnormal:
          c = code({random_.one_in(2), random_.one_in(8) ? 1 : 0, mantissa()});
          break;
        case Kind::no_products:
          c = is_b ? any_code() : 0;
          break;
        case Kind::one_large:
          c = k == special_k
                  ? code({false, f_.bias() + 4, mantissa()})
                  : code({random_.one_in(2), f_.bias() - random_.between(0, 6), mantissa()});
          break;
        case Kind::overflowing:
          c = code({random_.one_in(8), f_.largest_exponent() - random_.below(2), mantissa()});
          break;
        case Kind::positive:
          c = code({false, f_.bias() + random_.between(-1, 1), mantissa()});
          break;
        case Kind::specials:
        case Kind::COUNT:
          c = any_code();
          if (random_.one_in(128)) {  // infinity or NaN; of e4m3, NaN
            c = code({random_.one_in(2), 0, 0}) | ((1u << f_.exponent_bits) - 1)
                                                      << f_.mantissa_bits;
            if (!f_.has_infinity || random_.one_in(2)) c |= (1u << f_.mantissa_bits) - 1;
          }
      }
    }
    if (kind_ == Kind::cancelling && !is_b) all[random_.below(k_count)] = near_one(3);
    return all;
  }

  // +-1.x * 2^exponent; with all 23 bits of x, or none.
  float number(int exponent) {
    const uint64_t r = random_.bits();
    const auto biased = static_cast<uint32_t>(std::clamp(exponent + 127, 0, 254));
    const uint32_t mantissa = r >> 62 == 0 ? 0 : static_cast<uint32_t>(r) & 0x7fffff;
    return from_bits(static_cast<uint32_t>(r >> 40 & 1) << 31 | biased << 23 | mantissa);
  }
  static float from_bits(uint32_t bits) {
    float f = 0;
    std::memcpy(&f, &bits, sizeof f);
    return f;
  }

  float sum() {
    const int least = 2 * (1 - f_.bias() - f_.mantissa_bits);  // exponent of the smallest product
    switch (kind_) {
      case Kind::any:
        return 0;
      case Kind::any_with_sum:
        return number(random_.between(-4, 2 * std::min(f_.bias(), 16) + 4));
      case Kind::narrow:
        return number(random_.between(-12, 16));
      case Kind::sparse:
        return random_.one_in(2) ? 0 : number(random_.between(-16, 16));
      case Kind::cancelling:
        return random_.one_in(2) ? 0 : number(random_.between(-20, 8));
      case Kind::powers:
        return number(random_.between(-30, 30));
      case Kind::subnormal:
        return random_.one_in(4) ? from_bits(static_cast<uint32_t>(random_.bits()) & 0x807fffff)
                                 : number(random_.between(least - 20, least + 20));
      case Kind::no_products: {
        const auto bits = static_cast<uint32_t>(random_.bits());
        if (random_.one_in(16)) return random_.one_in(2) ? -0.0f : 0.0f;
        return from_bits((bits & 0x7f800000) == 0x7f800000 ? bits ^ 0x40000000 : bits);
      }
      case Kind::one_large:
        return random_.one_in(2) ? 0 : number(random_.between(-8, 12));
      case Kind::large_sum:
        return number(random_.between(8, 34));
      case Kind::overflowing:
        return number(random_.between(100, 127));
      case Kind::positive:
        return std::abs(number(random_.between(-2, 8)));
      case Kind::specials:
      case Kind::COUNT:
        if (random_.one_in(64)) {
          const uint32_t bits = static_cast<uint32_t>(random_.bits());
          return from_bits(0x7f800000 | (bits & 0x80400000));
        }
        return number(random_.between(-8, 16));
    }
    return 0;
  }

  void append(std::vector<uint8_t>& to, const std::vector<uint32_t>& codes) const {
    for (uint32_t c : codes) {
      if (f_.bytes == 4) c <<= 13;  // tf32: the upper bits of a float
      for (int byte = 0; byte < f_.bytes; ++byte) to.push_back(static_cast<uint8_t>(c >> 8 * byte));
    }
  }

  const Format& f_;
  Random random_;
  Kind kind_;
};

inline Tile tile_of(const Format& f, int index) { return TileMaker(f, index).make(); }

}  // namespace gemm::fragments

GEMM_BUILD_NAMESPACE_BEGIN

constexpr int FRAGMENT_THREADS = 128;
// Shared memory: A, then B, in panels of 16 bytes of k (no swizzle).
constexpr int FRAGMENT_SMEM = (fragments::ROWS + fragments::COLS) * fragments::K_BYTES;

// A block a tile: its instructions one after the other, and the accumulators after each to `out`
// (tile, INSTRUCTIONS, ROWS, COLS). a and b: tile after tile, as Tile has them.
template <class T>
__global__ void __launch_bounds__(FRAGMENT_THREADS)
    multiply_fragments(const uint8_t* a, const uint8_t* b, const float* sums, float* out) {
  using namespace fragments;
  auto* const sA = static_cast<uint8_t*>(dynamic_shared());
  uint8_t* const sB = sA + ROWS * K_BYTES;
  const int tid = threadIdx.x, lane = tid % 32;
  const int64_t tile = blockIdx.x;
  // The place of d[e]: device/ptx/wgmma.cuh.
  const auto place = [&](int e) {
    return (tid / 32 * 16 + lane / 4 + e / 2 * 8) * COLS + lane % 4 * 2 + e % 2;
  };
  const auto copy = [&](uint8_t* to, const uint8_t* from, int rows) {
    for (int i = tid; i < rows * K_BYTES; i += FRAGMENT_THREADS) {
      const int row = i / K_BYTES, byte = i % K_BYTES;
      to[byte / 16 * rows * 16 + row * 16 + byte % 16] = from[i];
    }
  };
  float acc[COLS / 2];
  for (int e = 0; e < COLS / 2; ++e) acc[e] = sums[tile * RESULTS + place(e)];
  for (int i = 0; i < INSTRUCTIONS; ++i) {
    copy(sA, a + (tile * INSTRUCTIONS + i) * ROWS * K_BYTES, ROWS);
    copy(sB, b + (tile * INSTRUCTIONS + i) * COLS * K_BYTES, COLS);
    fence_proxy_async();
    __syncthreads();
    const uint64_t descriptor_a = wgmma_descriptor<Major::K, Swizzle::none>(sA, ROWS * 16);
    const uint64_t descriptor_b = wgmma_descriptor<Major::K, Swizzle::none>(sB, COLS * 16);
    fence_operand(acc);
    wgmma_fence();
    wgmma<T, COLS>(acc, descriptor_a, descriptor_b, true);
    wgmma_commit();
    wgmma_wait<0>(acc);
    __syncthreads();
    for (int e = 0; e < COLS / 2; ++e) out[(tile * INSTRUCTIONS + i) * RESULTS + place(e)] = acc[e];
  }
}

// Calls visit(T()) for the type of that format.
template <class Visit>
void with_format(int format, Visit&& visit) {
  switch (format) {
    case 0:
      return visit(f8e4m3());
    case 1:
      return visit(f8e5m2());
    case 2:
      return visit(half());
    case 3:
      return visit(bf16());
    default:
      return visit(float());
  }
}

GEMM_BUILD_NAMESPACE_END
