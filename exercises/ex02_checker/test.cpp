#include <limits>

#include "grader/grader.h"

namespace gemm::grading {
namespace {

const Test test(
    {"all NaN", "one NaN"},
    [](Grader& grader) {
      constexpr int N = 1000;
      std::vector<double> want(N), bound(N, 1e-3);
      for (int i = 0; i < N; ++i) want[i] = i % 7 - 3;
      const std::vector<float> right(want.begin(), want.end());
      const auto expect = [&](const char* name, const std::vector<float>& got, int64_t wrong,
                              const char* meaning) {
        const int64_t counted = grader.count_wrong(got, want, bound);
        grader.check(name, counted == wrong,
                     "counted " + std::to_string(counted) + " wrong elements, there are " +
                         std::to_string(wrong),
                     meaning);
      };
      constexpr float NAN_ = std::numeric_limits<float>::quiet_NaN();
      constexpr float INF = std::numeric_limits<float>::infinity();
      expect("a right result", right, 0, "A right result must pass.");

      std::vector<float> got = right;
      for (float& x : got) x += 0.9e-3f;
      expect("errors within the bound", got, 0, "An error up to the bound is allowed.");

      got = right;
      got[999] += 1e-2f;
      expect("one element off", got, 1, "The last element is outside of its bound.");

      got = right;
      got[3] = INF, got[4] = -INF;
      expect("two infinities", got, 2, "Infinity is infinitely wrong.");

      got.assign(N, NAN_);
      expect("all NaN", got, N,
             "A kernel that writes nothing at all, into memory that holds NaN, passes this check.");
      got = right;
      got[500] = NAN_;
      expect("one NaN", got, 1,
             "One element of the result is not a number, and the check says fine.");
    },
    "count_wrong");

}  // namespace
}  // namespace gemm::grading
