#!/usr/bin/env bash
# Builds harness, simulator, rungs and tests with AddressSanitizer and UndefinedBehaviorSanitizer
# (preset "sanitize", folder build-sanitize; with --quick build-sanitize-quick, at -O0) and runs the CPU tests under them.
#   --quick: without the ladder: harness, simulator, command line and faults; for .ci/run
# Traced rungs are built as ever: -fsanitize=thread's calls are the simulator's there.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

build="build-sanitize"
export UBSAN_OPTIONS=print_stacktrace=1
# One allocation larger than the machine is a test of "out of memory".
export ASAN_OPTIONS=allocator_may_return_null=1:detect_stack_use_after_return=0
if [[ ${1:-} == --quick ]]; then
  build="build-sanitize-quick"  # to compile it takes longest
  cmake --preset sanitize -B $build -DGEMM_SANITIZE_LEVEL=0 > /dev/null
  cmake --build $build --parallel "$(nproc)" --target sim_tests fault_bench variant_bench
  $build/tests/sim_tests --gtest_brief=1
  VARIANT_BENCH=$PWD/$build/tests/variant_bench python3 tests/variants_test.py &
  variants=$!
else
  (($# == 0)) || die "usage: scripts/sanitize.sh [--quick]"
  cmake --preset sanitize > /dev/null
  cmake --build $build --parallel "$(nproc)" --target all more
  ctest --test-dir $build -L '^(cpu|exercise)$' --parallel "$(nproc)" --output-on-failure -E '^faults$'
fi
# Its rungs crash on purpose: the program tells of it, not the sanitizer.
ASAN_OPTIONS=$ASAN_OPTIONS:handle_segv=0 FAULT_BENCH=$PWD/$build/tests/fault_bench python3 tests/faults_test.py
[[ -z ${variants:-} ]] || wait "$variants"  # fails where that has failed
say "sanitizers: nothing found"
