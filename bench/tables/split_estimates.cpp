// Estimates what v13s's variants take, for scripts/fit_costs.py: the planner's own function.
//
//   split_estimates MxNxK:ops:variant ... < constants
//
// A line of constants in, the order of FfmaCosts::Split's fields: a line of microseconds out, one
// each problem. `ops` is nn, nt, tn or tt; a variant's number is v13s's. Rows without a gap, an
// H200's SMs.
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include "device/ffma_costs.h"

namespace gemm {
namespace {

struct Case {
  GemmArgs<float> p;
  int variant;
};

// Exits with 2 if it is none.
Case parse(const char* text) {
  int m, n, k, variant;
  char a, b;
  if (std::sscanf(text, "%dx%dx%d:%c%c:%d", &m, &n, &k, &a, &b, &variant) != 6 || variant < 0 ||
      variant >= split_variants()) {
    std::fprintf(stderr, "split_estimates: '%s' is no MxNxK:ops:variant\n", text);
    std::exit(2);
  }
  static const float* const aligned = reinterpret_cast<const float*>(uintptr_t{4096});
  const bool ta = a == 't', tb = b == 't';
  return {{m,
           n,
           k,
           aligned,
           ta ? m : k,
           aligned,
           tb ? k : n,
           nullptr,
           n,
           {},
           ta ? Op::T : Op::N,
           tb ? Op::T : Op::N},
          variant};
}

int run(int argc, char** argv) {
  std::vector<Case> cases;
  for (int i = 1; i < argc; ++i) cases.push_back(parse(argv[i]));
  const Arch& arch = simulated_arch();
  FfmaCosts costs = arch.costs->fp32;
  FfmaCosts::Split& s = costs.split;
  double* const fields[] = {&s.multiply, &s.alone,  &s.copy_4, &s.copy_16, &s.launch, &s.wave,
                            &s.cluster,  &s.second, &s.l2,     &s.fetch,   &s.store,  &s.send};
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream constants(line);
    for (double* field : fields)
      if (!(constants >> *field)) {
        std::fprintf(stderr, "split_estimates: a line has %zu constants\n", std::size(fields));
        return 2;
      }
    for (const Case& c : cases)
      std::printf("%.9g ", best_split_tile(c.p, arch.sms, costs, c.variant).us);
    std::printf("\n");
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace
}  // namespace gemm

int main(int argc, char** argv) { return gemm::run(argc, argv); }
