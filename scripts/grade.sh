#!/usr/bin/env bash
# Grades the exercises in the simulator; no GPU is needed.
#
#   scripts/grade.sh ex03             your exercises/ex03_*/work.cu; made from start.cu the first time
#   scripts/grade.sh                  every exercise that you have begun
#   scripts/grade.sh --solution ex03  the solution; --start: the file as given
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

kind=work
case ${1-} in
  --solution | --start) kind=${1#--} && shift ;;
  -h | --help) sed -n '2,7s/^# \?//p' "${BASH_SOURCE[0]}" && exit ;;
esac

declare -A folder_of=()
for folder in exercises/ex*/; do
  name=$(basename "$folder")
  folder_of[${name%%_*}]=$name
done
known=$(printf '%s\n' "${!folder_of[@]}" | sort | xargs)
wanted=()
for name; do
  id=${name%%_*}
  [[ -n ${folder_of[$id]-} ]] || status=2 die "no exercise '$name'; there are: $known"
  wanted+=("$id")
done

if [[ $kind == work ]]; then
  if ((!${#wanted[@]})); then
    for id in $known; do
      [[ ! -f exercises/${folder_of[$id]}/work.cu ]] || wanted+=("$id")
    done
    ((${#wanted[@]})) || status=2 die "nothing begun yet; begin with scripts/grade.sh ex01"
  fi
  for id in "${wanted[@]}"; do
    folder=exercises/${folder_of[$id]}
    if [[ ! -f $folder/work.cu ]]; then
      cp "$folder/start.cu" "$folder/work.cu"
      say "$folder/work.cu is yours now: what to do stands in $folder/README.md"
    fi
  done
fi

# An existing build is used; on a fresh clone one is made, as scripts/test.sh would.
build=build
[[ -f build/build.ninja || ! -f build-simulator/build.ninja ]] || build="build-simulator"
if [[ ! -f $build/build.ninja ]]; then
  scripts/setup.sh
  say "configuring, and building the simulator: a minute, this once"
  cmake --preset release >/dev/null
fi

# Builds a target quietly; shows what the compiler says when it fails.
make() {
  local log
  log=$(mktemp)
  if ! cmake --build "$build" --target "$1" >"$log" 2>&1; then
    grep -vE '^(\[|ninja|FAILED|/usr/bin/(c|g)\+\+)' "$log" || cat "$log"
    rm "$log"
    return 1
  fi
  rm "$log"
}

# Runs a grader; an endless loop or a crash is a result as well.
grade() {
  local status=0
  timeout 120 "$build/exercises/$1" "$kind" "${@:2}" || status=$?
  case $status in
    124) say "stopped after two minutes: a loop that does not end?" ;;
    13? | 1[4-9]?) say "the kernel crashed: an index of shared memory far outside of its array?" ;;
  esac
  return "$status"
}

failed=0
if [[ $kind == work ]]; then
  for id in "${wanted[@]}"; do
    make "grade_$id" && grade "grade_$id" "$id" || failed=1
  done
else
  make exercise_grader && grade exercise_grader "${wanted[@]}" || failed=1
fi
exit $failed
