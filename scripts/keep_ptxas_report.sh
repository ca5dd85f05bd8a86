#!/usr/bin/env bash
# Compiler launcher: keep_ptxas_report.sh FOLDER COMPILER ARGUMENTS... runs the compiler, keeps ptxas's resource report in
# FOLDER/<source>.txt and passes everything else on.
folder=$1
shift
for argument; do
  case $argument in *.cu) source=$(basename "$argument" .cu) ;; esac
done
mkdir -p "$folder"
output=$("$@" 2>&1)
status=$?
report='^ptxas info|^ +[0-9]+ bytes stack frame|^$'
[[ -n ${source:-} ]] && grep -E "$report" <<<"$output" >"$folder/$source.txt"
grep -vE "$report" <<<"$output" >&2
exit $status
