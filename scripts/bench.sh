#!/usr/bin/env bash
# Sets up, builds what is asked and runs it.
#
#   scripts/bench.sh                            the ladder. With a GPU: measured by the short protocol, the core
#                                               first, then every rung, and one picture. Without: the core,
#                                               verified in the simulator
#   scripts/bench.sh --kernel v8 --size 4096    ./gemm_bench with these options. With a GPU it is drawn beside
#                                               the committed run; without, v8's counters follow beside v7's
#   scripts/bench.sh --long                     every rung at every size by the long protocol, for figures that
#                                               are published: fills plots/results/<gpu>/, figures and tables
#
# Ctrl-C ends a run early: its table, its JSON and its picture have what was measured until then.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

scripts/setup.sh --bench
build bench "$@"

timed=0
! nvidia-smi -L &>/dev/null || timed=1
trap : INT  # a child that Ctrl-C ends is followed by what its results are for

# ./gemm_bench with these options; sets `status`, and `json` to the file that has its results.
measure() {
  json=$1
  shift
  status=0
  rm -f "$json" "$json.partial"
  ./gemm_bench "$@" --json "$json" || status=$?
  [[ -s $json ]] || json=$json.partial
}

draw() {
  [[ ! -s $json ]] || "$python" scripts/compare.py --beside-committed "$json" --plot "$1" || true
}

with_options() {
  local argument previous='' json=build/run.json status=0
  for argument; do
    case $argument in
      --tune | --inspect | --explain | --list | --verify-only | -h | --help) exec ./gemm_bench "$@" ;;
      --json=*) json=${argument#--json=} ;;
    esac
    [[ $previous != --json ]] || json=$argument
    previous=$argument
  done
  [[ $json != build/run.json ]] || { rm -f "$json" "$json.partial" && set -- "$@" --json "$json"; }
  ./gemm_bench "$@" || status=$?
  ((status == 0)) || [[ -s $json ]] || json=$json.partial
  if ((status != 2 && timed)); then
    draw build/run.png
  elif ((status == 0)); then
    exec python3 scripts/last_screen.py "$@"
  fi
  exit "$status"
}

long() {
  ((timed)) || status=2 die "bench.sh --long measures, and there is no GPU here"
  say "measuring the ladder (bench/shapes/ladder.txt): over half an hour"
  measure build/ladder.json --backend gpu --dtype f32,f16,tf32,bf16 --shapes bench/shapes/ladder.txt
  # Nothing replaces good results but a whole run in which all is right. Where there are none yet,
  # shapes that failed or did not fit are gaps with their reason (exit status 3).
  [[ $json == build/ladder.json ]] || die "the run ended early: $json has it until then"
  local results
  results=plots/results/$("$python" scripts/common/ladder.py gpu "$json")
  case $status in
    0) ;;
    1) die "a result is wrong (above): nothing is kept" ;;
    3)
      [[ ! -e $results/ladder.json && ! -e $results/ladder.json.gz ]] ||
        die "not all was measured: build/ladder.json has what was, and $results stays as it is"
      ;;
    *) die "the run was not made (above)" ;;
  esac
  mkdir -p "$results"
  mv "$json" "$results/ladder.json"
  say "results: $results/ladder.json"
  "$python" scripts/plot.py
  "$python" scripts/embed.py
}

ladder() {
  if ((!timed)); then
    ./gemm_bench || exit
    exec python3 scripts/last_screen.py
  fi
  say "the core, at two sizes"
  ./gemm_bench --quick --dtype f32,f16 --size 512,4096 || exit
  build bench --kernel all
  say "every rung, at every size; Ctrl-C ends it with what there is"
  measure build/ladder.json --quick --dtype f32,f16,tf32,bf16 --shapes bench/shapes/ladder.txt
  [[ ! -s $json ]] || "$python" scripts/plot.py --run "$json" --to build/ladder.png || true
  exit "$status"
}

case ${1-} in
  '') ladder ;;
  --long) long ;;
  *) with_options "$@" ;;
esac
