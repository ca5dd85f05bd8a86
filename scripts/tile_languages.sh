#!/usr/bin/env bash
# Tile languages side by side on one GPU: v29, the rungs by hand, cuBLAS, and a kernel in Triton.
#
#   scripts/tile_languages.sh            f16 and f32, 512 to 8192 by 256 and 1024 to 16384 doubling
#   scripts/tile_languages.sh --quick    1024 to 16384 doubling alone, f16
#   scripts/tile_languages.sh --configs  published configurations of v29's kernel, each at 1024 to 8192; builds them
#                                        first, which takes minutes
#   scripts/tile_languages.sh --group-m  v29's GROUP_M at 4096, 8192, 16384: time, hits in L2, bytes from memory
#
# Every rung is timed beside cuBLAS, and so is Triton's kernel (scripts/triton_gemm.py), in a process of
# its own: their ratios to cuBLAS compare them. Without triton and torch that part is left out, and
# said so. GEMM_TRITON_PYTHON names a Python that has them (default: python3).
# Results go to plots/results/<gpu>/. Exit status as of ./gemm_bench; 2 without a GPU.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

usage="usage: scripts/tile_languages.sh [--quick | --configs | --group-m]"
what=${1:-all}
[[ $# -le 1 && " all --quick --configs --group-m " == *" $what "* ]] || { status=2 die "$usage"; }

scripts/setup.sh
build bench --kernel all
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
./gemm_bench --backend gpu --kernel v1 --dtype f32 --shape 64x64x64 --verify-only --json "$work/gpu.json" >/dev/null ||
  { status=2 die "tile_languages.sh needs a GPU"; }
results=plots/results/$("$python" scripts/common/ladder.py gpu "$work/gpu.json")
mkdir -p "$results"

# keep FILE COMMAND...: the file that the command wrote, if it ended well.
keep() {
  local file=$1
  shift
  say "$*"
  "$@"
  mv "$work/$file" "$results/$file"
  say "results: $results/$file"
}

if [[ $what == --configs ]]; then
  cmake --build build --target tile_configs
  keep tiles_configs.json build/bench/tile_configs/tile_configs --backend gpu --variant all \
    --size 1024,2048,4096,8192 --json "$work/tiles_configs.json"
  say "which of them --tune first would run, by shape:"
  build/bench/tile_configs/tile_configs --backend gpu --tune first --tune-cache "$work/tuning.json" \
    --size 1024,2048,4096,8192
  exit
fi

if [[ $what == --group-m ]]; then
  keep tiles_group_m.json ./gemm_bench --backend gpu --kernel v29 --dtype f16 --variant all \
    --size 4096,8192,16384 --json "$work/tiles_group_m.json"
  keep group_m_l2.json "$python" scripts/group_m.py "$work/group_m_l2.json"
  exit
fi

doubling=1024,2048,4096,8192,16384
sizes=$doubling,512:8192:256
dtypes=f16,f32
[[ $what != --quick ]] || { sizes=$doubling dtypes=f16; }
keep tiles.json ./gemm_bench --backend gpu --kernel v24,v28,v29 --dtype "${dtypes%%,*}" --size "$sizes" \
  --json "$work/tiles.json"
if [[ $what == all ]]; then
  keep tiles_f32.json ./gemm_bench --backend gpu --kernel v12,v13,v28,v29 --dtype f32 --size "$sizes" \
    --json "$work/tiles_f32.json"
  keep tiles_mma.json ./gemm_bench --backend gpu --kernel v17 --dtype f16 --size "$doubling" \
    --json "$work/tiles_mma.json"
  keep tiles_mma_layer.json ./gemm_bench --backend gpu --kernel v29 --variant "mma.sync 128x256 g8" --dtype f16 \
    --size "$doubling" --json "$work/tiles_mma_layer.json"
fi
triton=${GEMM_TRITON_PYTHON:-python3}
if "$triton" -c 'import torch, triton' 2>/dev/null; then
  keep tiles_triton.json "$triton" scripts/triton_gemm.py --dtype "$dtypes" --size "$sizes" \
    --json "$work/tiles_triton.json"
else
  say "no triton and torch in $triton: GEMM_TRITON_PYTHON names a Python that has them"
fi
