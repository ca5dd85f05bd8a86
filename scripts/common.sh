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

# Builds what is asked, as scripts/build.py says.
build() { python3 scripts/build.py "$@"; }
