// Estimates what rungs' variants take, for scripts/fit_costs.py: by the planner's own functions.
//
//   cost_estimates h200 fp32.multiply,fp32.alone 'v13s/f32/nn/64x64x4096/16x64 split 2' ... < constants
//
// A GPU, names of constants, then cases: rung, type, transpositions, shape and variant. Each line of
// constants in, in the order of their names: a line of microseconds out, one a case, or inf where the
// rung is never the fastest. Other constants are the GPU's. Rows without a gap, an H200's SMs. Exit
// status: 0, 2 bad input.
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "harness/problem.h"
#include "plan/plan.h"
#include "registry.h"

namespace gemm {
namespace {

[[noreturn]] void bad(const std::string& what) {
  fmt::print(stderr, "cost_estimates: {}\n", what);
  std::exit(2);
}

struct Case {
  const Rung* rung;
  int variant;
  GemmCall call;
};

// The variant with this name; the only way where a rung has none; "any": the rung's own choice.
int find_variant(const Rung& rung, const std::string& name) {
  if (name == "any") return ANY_VARIANT;
  for (size_t i = 0; i < rung.variants.size(); ++i)
    if (rung.variants[i].name == name) return int(i);
  bad(fmt::format("{} has no variant '{}'", rung.name, name));
}

Case parse(const std::string& text) {
  std::istringstream parts(text);
  std::string id, dtype, ops, shape, variant;
  const auto next = [&](std::string& to) { std::getline(parts, to, '/'); };
  next(id), next(dtype), next(ops), next(shape);
  std::getline(parts, variant);
  const Rung* rung = nullptr;
  try {
    rung = find_rung(Backend::sim, id, dtype_of(dtype));
  } catch (const std::invalid_argument&) {
  }
  int m, n, k;
  if (rung == nullptr || ops.size() != 2 || std::sscanf(shape.c_str(), "%dx%dx%d", &m, &n, &k) != 3)
    bad(fmt::format("'{}' is no rung/type/ops/MxNxK/variant", text));
  const bool ta = ops[0] == 't', tb = ops[1] == 't';
  // Only its alignment is looked at.
  void* const aligned = reinterpret_cast<void*>(uintptr_t{4096});
  GemmCall call{.M = m, .N = n, .K = k, .A = aligned, .lda = ta ? m : k, .B = aligned};
  call.ldb = tb ? k : n;
  call.C = aligned;
  call.ldc = n;
  call.op_a = ta ? Op::T : Op::N;
  call.op_b = tb ? Op::T : Op::N;
  return {rung, find_variant(*rung, variant), call};
}

int run(int argc, char** argv) {
  if (argc < 3) bad("want a GPU, names of constants, then cases");
  Arch arch = simulated_arch();
  arch.ctas = arch.sms;  // a GPU's
  Costs costs = costs_of(argv[1]);
  arch.costs = &costs;
  FfmaCosts::Split& s = costs.fp32.split;
  EngineCosts& e = costs.engine;
  std::map<std::string, double*> known = {{"fp32.multiply", &s.multiply},
                                          {"fp32.alone", &s.alone},
                                          {"fp32.copy_4", &s.copy_4},
                                          {"fp32.copy_16", &s.copy_16},
                                          {"fp32.launch", &s.launch},
                                          {"fp32.wave", &s.wave},
                                          {"fp32.cluster", &s.cluster},
                                          {"fp32.second", &s.second},
                                          {"fp32.l2", &s.l2},
                                          {"fp32.fetch", &s.fetch},
                                          {"fp32.store", &s.store},
                                          {"fp32.send", &s.send},
                                          {"engine.launch", &e.launch},
                                          {"engine.k_tile", &e.k_tile},
                                          {"engine.tensor", &e.tensor},
                                          {"engine.memory", &e.memory},
                                          {"engine.l2", &e.l2},
                                          {"engine.fetch", &e.fetch},
                                          {"engine.store", &e.store},
                                          {"engine.moved", &e.moved},
                                          {"engine.copies", &e.copies},
                                          {"engine.copy_launch", &e.copy_launch},
                                          {"unaligned.launch", &costs.unaligned.launch},
                                          {"unaligned.k_tile", &costs.unaligned.k_tile},
                                          {"unaligned.by_elements", &costs.unaligned.by_elements},
                                          {"unaligned.results", &costs.unaligned.results}};
  std::vector<double*> fields;
  std::istringstream names(argv[2]);
  for (std::string name; std::getline(names, name, ',');) {
    const auto field = known.find(name);
    if (field == known.end()) bad(fmt::format("unknown constant '{}'", name));
    fields.push_back(field->second);
  }
  std::vector<Case> cases;
  for (int i = 3; i < argc; ++i) cases.push_back(parse(argv[i]));
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream constants(line);
    for (double* field : fields)
      if (!(constants >> *field)) bad(fmt::format("a line has {} constants", fields.size()));
    for (const Case& c : cases) {
      const std::optional<Plan> plan = c.rung->plan(*c.rung, c.call, arch, c.variant);
      fmt::print("{:.9g} ", plan ? plan->makespan : NEVER);
    }
    fmt::print("\n");
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace
}  // namespace gemm

int main(int argc, char** argv) { return gemm::run(argc, argv); }
