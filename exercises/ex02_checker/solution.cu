// ex02: the check of a kernel's result, on the host. Element i is wrong when got[i] differs from
// want[i] by more than bound[i].
#include <cmath>

#include "exercise.h"

namespace {
using namespace gemm;

int64_t count_wrong(const float* got, const double* want, const double* bound, int64_t n) {
  int64_t wrong = 0;
  for (int64_t i = 0; i < n; ++i) {
    const double error = std::abs(got[i] - want[i]);
    if (!(error <= bound[i])) ++wrong;  // so written, NaN is wrong: no comparison with it is true
  }
  return wrong;
}

const Exercise exercise(count_wrong);

}  // namespace
