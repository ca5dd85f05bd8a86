#!/usr/bin/env bash
# Compiles rungs for several GPU architectures, each by itself, and prints what came of it.
#   scripts/compile_all.sh [--arch 75,80,89,90a,100,120] [--rungs all | v1-v8,v24]
#
#   ok      compiles, and runs there
#   stub    compiles, but needs another architecture: it is skipped there, with that reason
#   FAILED  the first error stands below the table
#
# One executable for all of them is a build with -DCMAKE_CUDA_ARCHITECTURES="80-real;90a-real". ccache
# is used where it is installed. Exit status: 0, 1 when one failed, 2 for bad input or without nvcc.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

status=2
usage="usage: scripts/compile_all.sh [--arch 80,90a] [--rungs v1-v8,v24]"
archs=75,80,89,90a,100,120
rungs=all
while (($#)); do
  case $1 in
    --arch | --rungs) [[ -n ${2:-} ]] || die "$1 wants a value; $usage" ;;
    *) die "unknown argument '$1'; $usage" ;;
  esac
  if [[ $1 == --arch ]]; then archs=$2; else rungs=$2; fi
  shift 2
done

PATH=$PATH:/usr/local/cuda/bin
nvcc=$(command -v "${CUDACXX:-nvcc}") || die "no ${CUDACXX:-nvcc}: CUDACXX or the PATH names CUDA's compiler"
known=" $("$nvcc" --list-gpu-arch | sed 's/compute_//' | sort -n | paste -sd' ') "
for arch in ${archs//,/ }; do
  [[ $arch =~ ^[0-9]+[af]?$ && $known == *" ${arch%[af]} "* ]] ||
    die "this nvcc does not compile for '$arch': choose from$known(90a: with the instructions of sm_90a alone)"
done
# A line a rung: its name, the least compute capability, whether that one alone.
table=$(python3 scripts/common/ladder.py needs "$rungs")

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
launcher=$(command -v ccache || true)

# compile RUNG ARCH: leaves the compiler's words in $work/RUNG.ARCH.log, and .ok beside it if it did.
compile() {
  local out=$work/$1.$2
  # shellcheck disable=SC2086  # no launcher is no word
  $launcher "$nvcc" -c "kernels/$1.cu" -o "$out.o" -gencode "arch=compute_$2,code=sm_$2" -std=c++20 -O3 -Isrc \
    -Werror=all-warnings -Xcompiler=-Wall,-Wextra >"$out.log" 2>&1 && touch "$out.ok"
  rm -f "$out.o"
  if [[ -t 2 ]]; then printf '%s for sm_%s\033[K\r' "$1" "$2" >&2; fi
}
export -f compile
export work launcher nvcc

SECONDS=0
while read -r name _; do
  for arch in ${archs//,/ }; do printf '%s %s\n' "$name" "$arch"; done
done <<<"$table" | xargs -P "$(nproc)" -L 1 bash -c 'compile "$@" || true' compile
if [[ -t 2 ]]; then printf '\033[K' >&2; fi

total=0 failures=()
printf '%-22s' rung
for arch in ${archs//,/ }; do printf ' %-6s' "$arch"; done
printf '\n'
while read -r name sm exact; do
  printf '%-22s' "$name"
  for arch in ${archs//,/ }; do
    total=$((total + 1))
    if [[ ! -e $work/$name.$arch.ok ]]; then
      cell=FAILED
      failures+=("$name.$arch")
    elif ((${arch%[af]} < sm)) || [[ $exact == only && $arch != "${sm}a" ]]; then
      cell=stub
    else
      cell=ok
    fi
    printf ' %-6s' "$cell"
  done
  printf '\n'
done <<<"$table"
for one in ${failures[@]+"${failures[@]}"}; do
  first=$(grep -im1 -E 'error|fatal' "$work/$one.log" || head -1 "$work/$one.log")
  printf '%s: %s\n' "${one/./ for sm_}" "$first"
done
printf '%d compiled, %d failed, %d s\n' $((total - ${#failures[@]})) ${#failures[@]} "$SECONDS"
((${#failures[@]} == 0)) || exit 1
