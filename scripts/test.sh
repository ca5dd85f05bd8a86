#!/usr/bin/env bash
# Sets up, builds and runs every test. Options go to CTest: scripts/test.sh -L cpu, -R figures, ...
# Tests that need a GPU report "Skipped" where there is none; a new build then has a sample of its kernels.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

scripts/setup.sh
build sample
say "tests"
exec ctest --test-dir build --parallel "$(nproc)" --output-on-failure "$@"
