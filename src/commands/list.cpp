#include "commands/list.h"

#include <fmt/format.h>

#include <algorithm>

#include "commands/jobs.h"
#include "harness/known_rungs.h"

namespace gemm {

ExitStatus list(const Options& o) {
  std::string note;
  const Backend backend = choose_device(o, note)->backend();
  struct Line {
    std::string id, name, dtypes, idea;
  };
  std::vector<Line> lines;
  for (const Rung* r : rungs(backend)) {
    if (lines.empty() || lines.back().name != r->name)
      lines.push_back({r->id, r->name, to_string(r->dtype),
                       r->idea + (r->narrow_range ? "; no infinities or NaN" : "")});
    else
      lines.back().dtypes += "," + to_string(r->dtype);
  }
  std::vector<KnownRung> missing = rungs_not_built(backend);
  std::erase_if(missing, [](const KnownRung& k) { return k.name[0] != 'v'; });  // of several GPUs
  for (const KnownRung& k : missing)
    lines.push_back({rung_id(k.name), k.name, "not built", k.idea});
  std::ranges::sort(lines, {}, [](const Line& line) { return ladder_position(line.id); });
  for (const Line& l : lines)
    fmt::print("{:<5} {:<22} {:<13} {}\n", l.id, l.name, l.dtypes, l.idea);
  if (!missing.empty())
    fmt::print("\nNot built: {} of {}. {}, for example, builds {} and runs it.\n", missing.size(),
               lines.size(), command_that_builds(backend, rung_id(missing.front().name)),
               rung_id(missing.front().name));
  return EXIT_VERIFIED;
}

}  // namespace gemm
