#!/usr/bin/env bash
# Grades the exercises in the simulator; no GPU is needed.
#
#   scripts/grade.sh ex03             your exercises/ex03_*/work.cu; made from start.cu the first time
#   scripts/grade.sh                  every exercise that you have begun
#   scripts/grade.sh --solution ex03  the solution; --start: the file as given
#   scripts/grade.sh --limit 10 ex03  stops it after 10 seconds, not 120
#
# Exit status: 0 all passed, 1 not all, 2 no such exercise or option.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

kind=work
limit=120
while [[ ${1-} == -* ]]; do
  case $1 in
    --solution | --start) kind=${1#--} ;;
    --limit)
      [[ ${2-} =~ ^[1-9][0-9]{0,4}$ ]] || status=2 die "--limit ${2-}: allowed are 1 to 99999 seconds"
      limit=$2 && shift
      ;;
    -h | --help) sed -n '2,9s/^# \?//p' "${BASH_SOURCE[0]}" && exit ;;
    *) status=2 die "no option $1; there are: --solution --start --limit --help" ;;
  esac
  shift
done

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

if [[ $kind != work ]]; then
  ((${#wanted[@]})) || read -ra wanted <<<"$known"
else
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
  python3 scripts/build.py configure
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

program=grade_given
failed=0
for id in "${wanted[@]}"; do
  [[ $kind != work ]] || program=grade_$id
  make exercise_grader && make "$program" &&
    "$build/exercises/exercise_grader" grade "$build/exercises/$program" "$kind" "${folder_of[$id]}" \
      "$limit" || failed=1
done
exit $failed
