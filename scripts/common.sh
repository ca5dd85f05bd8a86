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

# Configures once (CMake re-runs itself when its files change) and compiles on all cores.
build() {
  say "build"
  [[ -f build/build.ninja ]] || cmake --preset release
  cmake --build build
}
