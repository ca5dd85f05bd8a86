#!/usr/bin/env bash
# Judges kernels of other projects that are on this machine: scripts/peers.py --help.
set -euo pipefail
scripts=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
build=$scripts/../build
case " $* " in
*" --python"*)
  "$scripts/build.py" bench --kernel v28 >&2
  ninja -C "$build" gemm_judge python_package >&2
  export GEMM_LADDER_JUDGE=${GEMM_LADDER_JUDGE:-$build/src/own/libgemm_judge.so}
  export GEMM_LADDER_LIBRARIES=${GEMM_LADDER_LIBRARIES:-$build/src/library}
  ;;
*) "$scripts/build.py" bench --kernel v2 >&2 ;;
esac
exec python3 "$scripts/peers.py" "$@"
