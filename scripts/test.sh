#!/usr/bin/env bash
# Sets up, builds and runs the tests of kernels, simulator, harness, library and command line. Options
# go to CTest: scripts/test.sh -L docs, -R figures, ...
#   --all:  also rungs beside the core's and the engine's, second types and variants, exercises, labs,
#           fuzzing, and figures, pages and linters
#   --nvcc: compiles a sample of each rung's GPU kernels, on any machine with the CUDA toolkit, and
#           runs the tests of what nvcc made of them: registers, spills, instructions
# Tests that need a GPU report "Skipped" where there is none, and then nothing is compiled for one.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

chosen=(-LE '^(more|docs|nvcc|site)$')
kind='more'
case ${1-} in
  --all) chosen=(-LE '^(nvcc|site)$') && shift ;;
  --nvcc) chosen=(-L '^nvcc$') && kind=nvcc && shift ;;
  '') kind=tests ;;
  *) chosen=() ;;
esac

scripts/setup.sh
build "$kind"
say "tests"
exec ctest --test-dir build --parallel "$(nproc)" --output-on-failure "${chosen[@]}" "$@"
