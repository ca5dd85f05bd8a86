#!/usr/bin/env bash
# Sets up, builds and climbs the ladder. With a GPU: measures every rung at every size of
# bench/shapes/ladder.txt, keeps the JSON under plots/results/<gpu>/, draws the plots and fills the
# tables. Without: verifies the ladder in the simulator. Options, when given, go to ./gemm_bench
# instead: scripts/bench.sh --kernel v8 --size 4096. What that times is drawn beside the committed
# run of the same GPU, or of the nearest one.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

scripts/setup.sh
build

# ./gemm_bench with these options, then the picture. Nothing is drawn where nothing was timed.
run_and_draw() {
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
  [[ $status -ne 3 || -s $json ]] || json=$json.partial  # a fault ended it
  if [[ $status -ne 2 && -s $json ]]; then
    "$python" scripts/compare.py --beside-committed "$json" --plot build/run.png || true
  fi
  exit "$status"
}
if (($#)); then
  run_and_draw "$@"
fi

# Whether this build and this machine can use a GPU: --list runs no kernel and has no other input to
# refuse, so exit status 2 means that there is none, and says why.
status=0
why=$(./gemm_bench --backend gpu --list 2>&1 > /dev/null) || status=$?
if ((status == 0)); then
  rm -f build/ladder.json build/ladder.json.partial
  say "measuring the ladder (bench/shapes/ladder.txt)"
  ./gemm_bench --backend gpu --dtype f32,f16,tf32,bf16 --shapes bench/shapes/ladder.txt \
    --json build/ladder.json || status=$?
  # Nothing replaces good results but a whole run in which all is right. Where there are none yet,
  # shapes that failed or did not fit are gaps with their reason (exit status 3).
  results=
  if [[ -f build/ladder.json ]]; then
    results=plots/results/$("$python" scripts/ladder.py gpu build/ladder.json)
  fi
  case $status in
    0) ;;
    1) die "a result is wrong (above): nothing is kept" ;;
    3)
      [[ -f build/ladder.json ]] || die "the run ended early: build/ladder.json.partial has it until then"
      [[ ! -e $results/ladder.json ]] || die "not all was measured: build/ladder.json has what was, and $results stays as it is"
      ;;
    *) die "the run was not made (above)" ;;
  esac
  mkdir -p "$results"
  mv build/ladder.json "$results/ladder.json"
  say "results: $results/ladder.json"
elif ((status == 2)); then
  say "no GPU run: $why"
  ./gemm_bench
  say "nothing was timed; plots and tables are drawn from the results committed in plots/results/"
else
  die "$why"
fi
"$python" scripts/plot.py
"$python" scripts/embed.py
