#include "harness/check.h"

#include <fmt/format.h>

namespace gemm {

std::string describe(const CheckResult& r) {
  if (r.ok()) return "ok";
  std::string text;
  if (r.wrong > 0)
    text = fmt::format(
        "{} of {} elements wrong, worst C[{}][{}]{} = {:.9g}, should be {:.9g} (allowed error "
        "{:.3g})",
        r.wrong, r.elements, r.row, r.col,
        r.product < 0 ? "" : fmt::format(" of product {}", r.product), r.got, r.want, r.bound);
  if (r.overwritten > 0)
    text += fmt::format("{}{} elements outside C overwritten, the first at index {} of the buffer",
                        text.empty() ? "" : "; ", r.overwritten, r.overwritten_at);
  return text;
}

}  // namespace gemm
