#!/usr/bin/env bash
# Sets up, builds and runs every test. Options go to CTest: scripts/test.sh -L cpu, -R figures, ...
# Tests that need a GPU report "Skipped" where there is none, and then nothing is compiled for one.
#   --nvcc: compiles a sample of each rung's GPU kernels instead, on any machine with the CUDA
#           toolkit, and runs the tests of what nvcc made of them: registers, spills, instructions
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

scripts/setup.sh
if [[ ${1-} == --nvcc ]]; then
  shift
  build nvcc
  set -- -L nvcc "$@"
else
  build tests
fi
say "tests"
exec ctest --test-dir build --parallel "$(nproc)" --output-on-failure "$@"
