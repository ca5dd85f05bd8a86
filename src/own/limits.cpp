#include "own/limits.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

#include "harness/verify.h"

namespace gemm::own {
namespace {

constexpr int WHOLE = 256;  // multiple of all usual tiles
constexpr const char* NAMES[] = {"M", "N", "K"};
constexpr int LONG_K[] = {1024, 4096};

class Search {
 public:
  Search(const Rung& rung, Device& device) : rung_(rung), device_(device) {}

  // What is wrong there; empty: nothing.
  std::string wrong(int M, int N, int K) {
    Problem p;
    p.dtype = rung_.dtype, p.M = M, p.N = N, p.K = K;
    return Verifier(device_, p).pass(rung_, Inputs::sums, 0);
  }
  bool right(int M, int N, int K) {
    const std::string why = wrong(M, N, K);
    if (!why.empty() && first_.empty()) first_ = fmt::format("{} x {} x {}: {}", M, N, K, why);
    return why.empty();
  }
  // The least power of two g that it is right at WHOLE + g of; each axis, or all at once (-1).
  int multiple(int axis) {
    int g = 1;
    for (; g < WHOLE; g *= 2) {
      int extent[3] = {WHOLE, WHOLE, WHOLE};
      for (int i = 0; i < 3; ++i) extent[i] += axis < 0 || axis == i ? g : 0;
      if (right(extent[0], extent[1], extent[2])) break;
      if (first_.find("did not end") != first_.npos) return WHOLE;  // each try takes its time
    }
    return g;
  }
  const std::string& first() const { return first_; }

 private:
  const Rung& rung_;
  Device& device_;
  std::string first_;  // shape that was wrong, and how
};

}  // namespace

std::string find_limits(Rung& rung, Device& device) {
  Search search(rung, device);
  if (!search.wrong(WHOLE, WHOLE, WHOLE).empty()) return "is wrong at 256 x 256 x 256";
  std::vector<std::string> found;
  Needs& needs = rung.needs;
  const bool any_shape = search.right(2 * WHOLE, WHOLE, WHOLE) &&
                         search.right(WHOLE, 2 * WHOLE, WHOLE) &&
                         search.right(WHOLE, WHOLE, 2 * WHOLE);
  if (!any_shape && search.right(2 * WHOLE, 2 * WHOLE, 2 * WHOLE)) {
    needs.square = true;
    found.emplace_back("M = N = K");
  } else if (!any_shape) {
    return "is right at 256 x 256 x 256, and wrong at " + search.first();
  }
  for (int i = 0; i < 3; ++i) needs.multiple_of[i] = search.multiple(needs.square ? -1 : i);
  if (needs.square) needs.multiple_of[1] = needs.multiple_of[2] = needs.multiple_of[0];
  for (int i = 0; i < 3; ++i)
    if (needs.multiple_of[i] > 1)
      found.push_back(fmt::format("{} a multiple of {}", NAMES[i], needs.multiple_of[i]));
  if (!needs.square) {
    const auto least = [&](int axis) { return std::max(64, needs.multiple_of[axis]); };
    int right_to = 2 * WHOLE;
    for (const int k : LONG_K) {
      if (!search.right(least(0), least(1), k)) {
        needs.most_k = right_to;
        found.push_back(fmt::format("K up to {}", right_to));
        break;
      }
      right_to = k;
    }
  }
  if (found.empty()) return "right at every shape that was tried";
  return fmt::format("right where {} only; at {}", fmt::join(found, ", "), search.first());
}

}  // namespace gemm::own
