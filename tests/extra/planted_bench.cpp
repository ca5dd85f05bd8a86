// gemm_bench whose rungs are the planted bugs: v900 and on, in the order of planted_bugs().
#include <fmt/format.h>

#include "planted/planted.h"
#include "registry.h"

namespace gemm {
namespace {

bool add_all() {
  int number = 900;
  for (Planted& planted : planted_bugs()) {
    Rung rung = planted.rung;
    rung.file = fmt::format("planted/v{}_{}.cu", number++, planted.rung.name);  // makes its name
    rung.idea = "a planted bug: " + planted.check;
    for (const Backend backend : {Backend::sim, Backend::sim_traced}) {
      rung.backend = backend;
      detail::add(rung).file = "tests/planted/planted.cu";
    }
  }
  return true;
}

const bool added = add_all();

}  // namespace
}  // namespace gemm
