#!/usr/bin/env bash
# Records a run of one rung with Nsight Systems: what the CPU and the GPU do, when.
#   scripts/timeline.sh v24 [options of gemm_bench: --size 4096, --dtype f16, --verify-only ...]
# Prints the time in each named phase and kernel, and leaves the report, for nsys-ui, in
# build/timeline/. Every range is in the NVTX domain gemm_ladder.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

# Nsight Systems on the PATH, or in the last of the folders where it and CUDA are installed.
find_nsys() {
  command -v nsys && return
  local -a folders=("${CUDA_HOME:-/usr/local/cuda}"/bin /usr/local/cuda*/bin
    /usr/local/cuda*/nsight-systems*/bin /opt/nvidia/nsight-systems/*/bin
    /opt/nvidia/nsight-systems-cli/*/bin "$HOME"/nsight-systems-*/bin)
  local folder found=""
  for folder in "${folders[@]}"; do
    [[ -x $folder/nsys ]] && found=$folder/nsys
  done
  [[ -n $found ]] && printf '%s\n' "$found"
}

status=2
[[ $# -ge 1 && $1 != -* ]] ||
  die "usage: scripts/timeline.sh RUNG [OPTIONS of gemm_bench], for example v24 --size 4096 --dtype f16"
name=$(python3 scripts/common/ladder.py find "$1")
nsys=$(find_nsys) ||
  die "nsys (Nsight Systems, part of the CUDA toolkit) is neither on the PATH nor in its usual folders"
[[ -x ./gemm_bench ]] || die "./gemm_bench is not built; run scripts/bench.sh first"

report=build/timeline/$name  # nsys appends .nsys-rep
mkdir -p build/timeline
"$nsys" profile --trace=cuda,nvtx,cublas --sample=none --cpuctxsw=none \
  --force-overwrite=true --output="$report" \
  ./gemm_bench --backend gpu --kernel "$name" "${@:2}"
"$nsys" stats --force-export=true --report nvtx_sum --report nvtx_gpu_proj_sum \
  --report cuda_gpu_kern_sum "$report.nsys-rep"
say "report: $report.nsys-rep"
