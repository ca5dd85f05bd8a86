#!/usr/bin/env bash
# Judges kernels of other projects that are on this machine: scripts/peers.py --help.
set -euo pipefail
scripts=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
"$scripts/build.py" bench --kernel v2 >&2
case " $* " in *" --torch "*)
  ninja -C "$scripts/../build" gemm_judge >&2
  export GEMM_LADDER_JUDGE=${GEMM_LADDER_JUDGE:-$scripts/../build/src/own/libgemm_judge.so}
  ;;
esac
exec python3 "$scripts/peers.py" "$@"
