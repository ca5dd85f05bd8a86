# shellcheck shell=bash disable=SC2034
# What setup.sh, build and the two README commands share; sourced, never run.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
python=$root/.venv/bin/python
cd "$root"

say() { printf '== %s\n' "$*"; }
die() {
  printf '%s\n' "$*" >&2
  exit "${status:-1}"
}

# Configures once (CMake re-runs itself when its files change) and compiles on all cores. `build sample` is for tests: a new
# build on a machine without a GPU compiles a sample of the GPU's kernels, which none of them can run.
build() {
  say "build"
  local sample=OFF
  [[ ${1-} != sample ]] || nvidia-smi -L &>/dev/null || sample=ON
  if [[ ! -f build/build.ninja ]]; then
    cmake --preset release -DGEMM_GPU_SAMPLE=$sample
  elif [[ $sample == OFF ]] && grep -q '^GEMM_GPU_SAMPLE:BOOL=ON' build/CMakeCache.txt; then
    cmake --preset release -DGEMM_GPU_SAMPLE=OFF
  fi
  cmake --build build
}
