// copy_tuning FROM TO: reads a tuning cache and writes it anew, for scripts/fuzz.py.
#include <fmt/format.h>

#include <exception>

#include "harness/tuning.h"

int main(int argc, char** argv) {
  if (argc != 3) {
    fmt::print(stderr, "usage: copy_tuning FROM TO\n");
    return 2;
  }
  try {
    gemm::TuningCache::read(argv[1]).write(argv[2]);
  } catch (const std::exception& e) {
    fmt::print(stderr, "copy_tuning: {}\n", e.what());
    return 2;
  }
  return 0;
}
