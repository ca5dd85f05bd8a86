#include "commands/list.h"

#include <fmt/format.h>

#include "commands/jobs.h"

namespace gemm {

ExitStatus list(const Options& o) {
  std::string note;
  const std::vector<const Rung*> all = rungs(choose_device(o, note)->backend());
  for (size_t i = 0; i < all.size();) {
    const Rung& r = *all[i];
    std::string dtypes;
    for (; i < all.size() && all[i]->name == r.name; ++i)
      dtypes += (dtypes.empty() ? "" : ",") + to_string(all[i]->dtype);
    fmt::print("{:<5} {:<22} {:<13} {}{}\n", r.id, r.name, dtypes, r.idea,
               r.narrow_range ? "; no infinities or NaN" : "");
  }
  return EXIT_VERIFIED;
}

}  // namespace gemm
