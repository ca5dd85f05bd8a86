#!/usr/bin/env bash
# Tells why this machine may be slower than the committed figures.
#
#   scripts/doctor.sh    GPU, clocks, power cap, throttling, toolkit, wgmma that ptxas serialised
#
# Exit status: 0 also where there is no GPU, 2 no such option.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

case ${1-} in
  '') ;;
  -h | --help) sed -n '2,6s/^# \?//p' "${BASH_SOURCE[0]}" && exit ;;
  *) status=2 die "no option $1; there is: --help" ;;
esac

if ! command -v nvidia-smi >/dev/null || ! nvidia-smi -L >/dev/null 2>&1; then
  say "no GPU here: rungs run in the simulator, with counters and without times"
  exit 0
fi

# Prints one property of the first GPU; "unknown" where the driver does not tell.
ask() {
  nvidia-smi -i 0 --query-gpu="$1" --format=csv,noheader,nounits 2>/dev/null || echo unknown
}

# Whether both are whole or decimal numbers and the first is below the second.
below() {
  [[ $1 =~ ^[0-9.]+$ && $2 =~ ^[0-9.]+$ ]] && awk -v a="$1" -v b="$2" 'BEGIN { exit !(a < b) }'
}

name=$(ask name)
say "GPU: $name, compute capability $(ask compute_cap), driver $(ask driver_version)"
say "SM clock: $(ask clocks.sm) MHz now, $(ask clocks.max.sm) MHz at most"
limit=$(ask power.limit) default=$(ask power.default_limit)
say "power limit: $limit W of $default W by default"
! below "$limit" "$default" || say "  capped: expect less than the committed figures"
say "temperature: $(ask temperature.gpu) C; in use: $(ask utilization.gpu) %, $(ask memory.used) MiB"
for reason in sw_power_cap hw_slowdown hw_thermal_slowdown sw_thermal_slowdown hw_power_brake_slowdown; do
  [[ $(ask "clocks_throttle_reasons.$reason") != Active ]] || say "  throttled: $reason"
done

if command -v nvcc >/dev/null; then
  say "toolkit: $(nvcc --version | grep -o 'release [0-9.]*')"
else
  say "toolkit: no nvcc in PATH"
fi

# ptxas may put a wait behind each wgmma (C7510 to C7515). Its report stands in the build folder.
if [[ ! -d build/ptxas ]]; then
  say "wgmma: nothing built with nvcc yet"
elif grep -rqs 'Potential Performance Loss' build/ptxas; then
  say "wgmma: ptxas serialised them; these kernels are slower than they should be"
else
  say "wgmma: none serialised, by the reports of ptxas"
fi

folder=$(tr '[:upper:]' '[:lower:]' <<<"$name" | grep -oE 'h200|h100|a100' | head -1 || true)
if [[ -n $folder && -d plots/results/$folder ]]; then
  say "what to expect: plots/results/$folder; ./gemm_bench --kernel v24 compares with cuBLAS in one run"
else
  say "what to expect: nothing is committed for this GPU; judge by the ratio to cuBLAS, not by TFLOPS"
fi
