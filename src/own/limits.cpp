#include "own/limits.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <initializer_list>
#include <vector>

#include "harness/pattern.h"
#include "harness/verify.h"

namespace gemm::own {
namespace {

constexpr int WHOLE = 256;  // multiple of all usual tiles
constexpr const char* NAMES[] = {"M", "N", "K"};
constexpr int LONG_K[] = {1024, 4096};

Problem problem(int M, int N, int K, int ld_pad = 0) {
  Problem p;
  p.M = M, p.N = N, p.K = K, p.ld_pad = ld_pad;
  return p;
}

// "128 x 129 x 128 with lda = 136, ldb = 136, ldc = 136 and C one element past a multiple of 256 bytes"
std::string name(const Problem& p) {
  std::string text = fmt::format("{} x {} x {}", p.M, p.N, p.K);
  if (p.ld_pad != 0 || p.apart == Problem::Apart::ld)
    text += fmt::format(" with lda = {}, ldb = {}, ldc = {}", layout(p, Operand::A).ld,
                        layout(p, Operand::B).ld, layout(p, Operand::C).ld);
  if (p.apart == Problem::Apart::first)
    text += fmt::format(" with {} one element past a multiple of 256 bytes",
                        p.apart_of == Operand::A   ? "A"
                        : p.apart_of == Operand::B ? "B"
                                                   : "C");
  return text;
}

// Calls without k, and at which one condition of a path for vectors fails.
std::vector<Problem> other_calls(bool dense) {
  constexpr int EXTENT = 128, ODD = EXTENT + 1, PAD = 7;  // ODD + PAD: whole vectors of any type
  // Four tiles of 128 x 128 for each of the simulator's 4 SMs.
  std::vector<Problem> calls = {problem(4 * EXTENT, 4 * EXTENT, 0)};
  if (dense) return calls;
  const auto add = [&](Problem p, Problem::Apart what, Operand of) {
    p.apart = what, p.apart_of = of;
    calls.push_back(p);
  };
  add(problem(EXTENT, ODD, EXTENT, PAD), Problem::Apart::ld, Operand::A);       // N alone is odd
  add(problem(EXTENT, EXTENT, ODD + PAD - 1), Problem::Apart::ld, Operand::A);  // K alone
  for (const Problem::Apart what : {Problem::Apart::ld, Problem::Apart::first})
    for (const Operand of : {Operand::A, Operand::B, Operand::C})
      add(problem(EXTENT, EXTENT, EXTENT), what, of);
  return calls;
}

class Search {
 public:
  Search(const Rung& rung, Device& device, float beta, const BeforeRun& before)
      : rung_(rung), device_(device), beta_(beta), before_(before) {}

  // What is wrong there; empty: nothing.
  std::string wrong(Problem p) {
    p.dtype = rung_.dtype, p.beta = beta_;
    if (before_)
      if (std::string known = before_(fmt::format("{}, beta {:g}", name(p), beta_)); !known.empty())
        return known;
    try {
      return Verifier(device_, p).pass(rung_, Inputs::sums, p.ld_pad);
    } catch (const LaunchError& e) {
      return e.what();
    }
  }
  // Where its rows are those that diagnose() has.
  std::string with_pattern(const Problem& p, const std::string& why) const {
    const bool plain = p.ld_pad == 0 && p.apart == Problem::Apart::nothing;
    return plain && beta_ == 0 && rung_.diagnose ? why + rung_.diagnose(p.M, p.N, p.K, why) : why;
  }
  bool right(const Problem& p) {
    const std::string why = wrong(p);
    if (!why.empty() && first_.empty())
      first_ = fmt::format("{}: {}", name(p), with_pattern(p, why));
    return why.empty();
  }
  bool right(int M, int N, int K) { return right(problem(M, N, K)); }
  // The least power of two g that it is right at WHOLE + g of, along all of these axes at once.
  int multiple(std::initializer_list<int> axes) {
    int g = 1;
    for (; g < WHOLE; g *= 2) {
      int extent[3] = {WHOLE, WHOLE, WHOLE};
      for (const int axis : axes) extent[axis] += g;
      if (right(extent[0], extent[1], extent[2])) break;
      if (first_.find("did not end") != first_.npos) return WHOLE;  // each try takes its time
    }
    return g;
  }
  const std::string& first() const { return first_; }

 private:
  const Rung& rung_;
  Device& device_;
  const float beta_;
  const BeforeRun& before_;
  std::string first_;  // shape that was wrong, and how
};

std::string find_limits(Rung& rung, Search& search) {
  std::vector<std::string> found;
  Needs& needs = rung.needs;
  constexpr int TWICE = 2 * WHOLE;
  const bool k_alone = search.right(WHOLE, WHOLE, TWICE);
  if (!k_alone || !search.right(TWICE, WHOLE, WHOLE) || !search.right(WHOLE, TWICE, WHOLE)) {
    needs.equal = k_alone && search.right(TWICE, TWICE, WHOLE) ? 2 : 3;
    if (needs.equal == 3 && !search.right(TWICE, TWICE, TWICE)) {
      needs.equal = 0;
      return "right at 256 x 256 x 256, and wrong at " + search.first();
    }
    found.emplace_back(needs.equal == 2 ? "M = N" : "M = N = K");
  }
  if (needs.equal == 3) {
    std::ranges::fill(needs.multiple_of, search.multiple({0, 1, 2}));
  } else {
    needs.multiple_of[0] = needs.equal == 2 ? search.multiple({0, 1}) : search.multiple({0});
    needs.multiple_of[1] = needs.equal == 2 ? needs.multiple_of[0] : search.multiple({1});
    needs.multiple_of[2] = search.multiple({2});
  }
  for (int i = 0; i < 3; ++i)
    if (needs.multiple_of[i] > 1 && (i == 0 || needs.equal == 0 || (i == 2 && needs.equal == 2)))
      found.push_back(fmt::format("{} is a multiple of {}", NAMES[i], needs.multiple_of[i]));
  if (needs.equal < 3) {
    const int least = std::max({64, needs.multiple_of[0], needs.multiple_of[1]});
    int right_to = TWICE;
    for (const int k : LONG_K) {
      if (!search.right(least, least, k)) {
        needs.most_k = right_to;
        found.push_back(fmt::format("K is at most {}", right_to));
        break;
      }
      right_to = k;
    }
  }
  if (found.empty()) {
    for (const Problem& p : other_calls(needs.dense))
      if (!search.right(p)) return "wrong at " + search.first();
    return "no limit found";
  }
  return fmt::format("right where {} only; at {}", fmt::join(found, ", "), search.first());
}

bool starts(const std::string& text, Inputs kind) { return text.starts_with(name_of(kind)); }

// Why a kernel that is right on sums of integers is not on other inputs.
std::string likely(const std::string& wrong) {
  if (wrong.find("have changed") != wrong.npos)
    return "it keeps a result, or an input, from an earlier call";
  if (wrong.find("is an input, and was overwritten") != wrong.npos) return "it writes to A or B";
  if (wrong.find("outside C overwritten") != wrong.npos)
    return "it writes beyond C's columns: ldc, or an edge, is not kept to";
  if (starts(wrong, Inputs::uniform))
    return "it rounds more than the type does: inputs of fewer bits, or sums in a narrower type";
  if (starts(wrong, Inputs::products))
    return "it rounds inputs or products to fewer bits, or does not keep to IEEE's infinities and "
           "NaN";
  return "it does not keep to lda, ldb, ldc, alpha or beta, which are others here";
}

// What is wrong with sums of integers.
Pattern pattern_of(const Rung& rung, Device& device, const Problem& p) {
  struct Matrices {
    explicit Matrices(Device& d) : device(d) {}
    ~Matrices() {
      for (void* m : all) device.release(m);
    }
    Device& device;
    void* all[3] = {};
  } matrices(device);
  const Operand operands[] = {Operand::A, Operand::B, Operand::C};
  for (int i = 0; i < 3; ++i) {
    matrices.all[i] = device.allocate(layout(p, operands[i]).bytes);
    device.fill(matrices.all[i], p, operands[i], Inputs::sums, SEED);
  }
  device.run(rung, make_call(p, matrices.all[0], matrices.all[1], matrices.all[2]));
  std::vector<char> c(layout(p, Operand::C).bytes);
  device.download(c.data(), matrices.all[2], c.size());
  return pattern(p, c.data(), Inputs::sums, known_result(p, Inputs::sums, SEED));
}

}  // namespace

std::string find_limits(Rung& rung, Device& device, const BeforeRun& before) {
  Search search(rung, device, 0, before);
  const Problem whole = problem(WHOLE, WHOLE, WHOLE);
  const std::string why = search.wrong(whole);
  if (why.empty()) return find_limits(rung, search);
  Search with_c(rung, device, 1, before);
  if (rung.needs.product_only || !with_c.wrong(whole).empty())
    return fmt::format("wrong at {}: {}", name(whole), search.with_pattern(whole, why));
  return "reads C although beta is 0, which is wrong (C may be NaN); with --beta 1 " +
         find_limits(rung, with_c);
}

std::string diagnose(const Rung& rung, Device& device, int M, int N, int K,
                     const std::string& wrong, const uint3& grid) {
  Problem p;
  p.dtype = rung.dtype, p.M = M, p.N = N, p.K = K;
  std::string text, reason;
  try {
    const Pattern found = pattern_of(rung, device, p);
    reason = found.reason;
    if (found.wrong > 0) {
      text = fmt::format("; first C[{}][{}]", found.row, found.col);
      const auto tile = [](int extent, unsigned blocks) {
        return int(std::bit_ceil((unsigned(extent) + blocks - 1) / blocks));
      };
      // Along x alone, tiles may be of either kind.
      if (grid.x > 0 && (grid.y > 1 || (grid.x == 1 && grid.y == 1))) {
        const int bm = tile(M, grid.y), bn = tile(N, grid.x);
        if (unsigned(M + bm - 1) / bm == grid.y && unsigned(N + bn - 1) / bn == grid.x)
          text +=
              fmt::format(" in tile ({}, {}) of {} x {}", found.row / bm, found.col / bn, bm, bn);
      }
      for (const std::string& clause : found.clauses) text += "; " + clause;
      if (reason == NOT_WRITTEN && !rung.needs.product_only) {
        p.beta = 1;
        reason = pattern_of(rung, device, p).wrong > 0
                     ? "C is not written"
                     : "C is read although beta is 0, and 0 * NaN is NaN";
      }
    } else {
      reason = likely(wrong);
    }
  } catch (const LaunchError&) {  // that is what `wrong` says
    return "";
  }
  return reason.empty() ? text : text + "; likely: " + reason;
}

}  // namespace gemm::own
