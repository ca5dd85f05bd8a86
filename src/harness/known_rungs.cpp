#include "harness/known_rungs.h"

#include <algorithm>
#include <utility>

#include "sharded/sharded.h"

namespace gemm {
namespace {

std::vector<KnownRung>& known() {
  static std::vector<KnownRung> all;  // built on first use, which is before main
  return all;
}

}  // namespace

bool set_known_rungs(std::vector<KnownRung> all) {
  known() = std::move(all);
  return true;
}

std::vector<KnownRung> rungs_not_built(Backend backend) {
  std::vector<KnownRung> missing = known();
  std::erase_if(missing, [&](const KnownRung& k) {
    const auto same_name = [&](const auto* rung) { return rung->name == k.name; };
    return std::ranges::any_of(rungs(backend), same_name) ||
           std::ranges::any_of(sharded_rungs(backend), same_name);
  });
  return missing;
}

std::optional<KnownRung> find_not_built(Backend backend, const std::string& id_or_name) {
  for (const KnownRung& k : rungs_not_built(backend))
    if (rung_id(k.name) == id_or_name || k.name == id_or_name) return k;
  return {};
}

std::string command_that_builds(Backend backend, const std::string& kernels) {
  std::string command = "scripts/bench.sh ";
  if (backend == Backend::sim_traced) command += "--inspect ";
  command += "--kernel ";
  command += kernels;
  return command;
}

}  // namespace gemm
