#!/usr/bin/env bash
# Profiles one rung with Nsight Compute at the clocks it would really run at:
#   scripts/profile.sh v8 [size = 4096] [dtype = f32]
# Prints the report and leaves it, for ncu-ui, in build/profile/.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

status=2
[[ $# -ge 1 && $# -le 3 ]] || die "usage: scripts/profile.sh RUNG [SIZE] [DTYPE], for example v8 4096 f32"
command -v ncu >/dev/null || die "ncu (Nsight Compute, part of the CUDA toolkit) is not on the PATH"
[[ -x ./gemm_bench ]] || die "./gemm_bench is not built; run scripts/bench.sh first"

name=$(python3 scripts/common/ladder.py find "$1")
size=${2:-4096} dtype=${3:-f32}
kernel=gemm_${name%%_*}
# A rung that calls a library has no kernel of its own; its kernel's name is what we want to learn.
grep -q "$kernel" "kernels/$name.cu" || kernel='gemm|nvjet|cutlass|xmma'

report=build/profile/$name-$dtype-$size.ncu-rep
mkdir -p build/profile
ncu --clock-control none --kernel-name "regex:$kernel" --launch-count 1 \
  --section SpeedOfLight --section LaunchStats --section Occupancy --section WarpStateStats \
  --section SchedulerStats --section InstructionStats --section ComputeWorkloadAnalysis \
  --section MemoryWorkloadAnalysis --section MemoryWorkloadAnalysis_Tables \
  --section SourceCounters --import-source yes \
  --metrics "$(printf '%s,' \
    l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum \
    l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum \
    l1tex__t_requests_pipe_lsu_mem_global_op_st.sum \
    l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum \
    l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum \
    l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum \
    smsp__inst_executed_pipe_fma.sum)smsp__inst_executed.sum" \
  --force-overwrite --export "$report" \
  ./gemm_bench --backend gpu --kernel "$name" --dtype "$dtype" --size "$size" --verify-only
ncu --import "$report" --page details
say "report: $report"
