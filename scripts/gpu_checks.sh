#!/usr/bin/env bash
# What only a GPU can tell, beside the ladder itself (scripts/bench.sh): about ten minutes on an H200.
#
#   scripts/gpu_checks.sh              all parts
#   scripts/gpu_checks.sh study tests  some of them
#
#   tests       the tests that need a GPU, those of two GPUs where there are two
#   study       which wrong kernels verification refuses, and 10,000 right results
#   accuracy    errors against double precision, by class of inputs and K
#   layouts     beta = 1, all transpositions and padded rows, timed once
#   repeats     six times the same run: how much runs differ (scripts/compare.py --false-alarms)
#   sanitizer   memcheck and racecheck of every rung, by compute-sanitizer
#
# Results go to plots/results/<gpu>/, each as soon as its part has ended well. Exit status: the worst
# of its parts', as ./gemm_bench has them; 2 without a GPU.
# shellcheck disable=SC2329  # the parts are called by their names
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

known=(tests study accuracy layouts repeats sanitizer)
parts=("$@")
((${#parts[@]})) || parts=("${known[@]}")
for one in "${parts[@]}"; do
  [[ " ${known[*]} " == *" $one "* ]] || { status=2 die "unknown part '$one': choose from ${known[*]}"; }
done

scripts/setup.sh
build more

./gemm_bench --backend gpu --kernel v1 --shape 64x64x64 --verify-only >/dev/null ||
  { status=2 die "gpu_checks.sh needs a GPU"; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
./gemm_bench --backend gpu --kernel v1 --dtype f32 --shape 64x64x64 --verify-only --json "$work/gpu.json" >/dev/null
results=plots/results/$("$python" scripts/common/ladder.py gpu "$work/gpu.json")
mkdir -p "$results"
worst=0

# Runs a command; keeps the file that it wrote only when it ended well.
part() {
  local file=$1 status=0
  shift
  say "$*"
  "$@" || status=$?
  ((status <= worst)) || worst=$status
  if ((status == 0)) && [[ $file != - ]]; then
    mv "$work/$file" "$results/$file"
    say "results: $results/$file"
  fi
}

tests() {
  part - build/tests/gemm_tests --gtest_brief=1 --gtest_filter='Gpu*'
  part - build/tests/hopper_tests --gtest_brief=1 --gtest_filter='Gpu/*'
}
study() {
  part verification.json build/tests/verification_study --backend gpu --size 128 \
    --right 10000 --largest 9 --deepest 16 --json "$work/verification.json"
}
accuracy() {
  part accuracy.json build/accuracy --json "$work/accuracy.json"
}
layouts() {
  local rungs=v8,v13,v14w,v14x,v24,v27,v28 sizes=1000,1024,2048,4096,8192
  part beta.json ./gemm_bench --kernel "$rungs" --dtype f32,f16 --size "$sizes" --beta 1 \
    --json "$work/beta.json"
  part transposed.json ./gemm_bench --kernel v13,v27,v28 --dtype f32,f16 --size "$sizes" \
    --op nt,tn,tt --json "$work/transposed.json"
  part padded.json ./gemm_bench --kernel "$rungs" --dtype f32,f16 --size "$sizes" --ld-pad 8 \
    --json "$work/padded.json"
}
repeats() {
  for i in 1 2 3 4 5 6; do
    part - ./gemm_bench --kernel v8,v13,v24,v28 --dtype f32,f16 --size 1024,4096 \
      --json "$work/repeat$i.json"
  done
  part - "$python" scripts/compare.py --false-alarms "$work"/repeat?.json
}
sanitizer() {
  for tool in memcheck racecheck; do
    part - compute-sanitizer --tool "$tool" --error-exitcode 1 \
      ./gemm_bench --backend gpu --kernel all --verify-only --shape 136x264x200
  done
}

for one in "${parts[@]}"; do
  "$one"
done
"$python" scripts/plot.py
"$python" scripts/embed.py
exit "$worst"
