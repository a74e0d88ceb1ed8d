#!/usr/bin/env bash
# packaging/fuzz.sh BUILD_FOLDER MINUTES [TARGET...]: run the fuzz targets one after the other, MINUTES each. Findings are left in
# BUILD_FOLDER/fuzz. It starts from tests/fuzz/corpus and from what earlier runs found here. Exit code: 0 if nothing was found.
set -euo pipefail

build="$1" minutes="$2"
shift 2
[ $# -gt 0 ] || set -- frame journal manifest spec text names worker dataset formats
failed=0
for target in "$@"; do
  found="$build/fuzz/$target"
  mkdir -p "$found"
  # Arrow is not instrumented, and rarely needs more memory than this for a file of the corpus' size.
  if ! "$build/tests/${target}_fuzz" -max_total_time=$((minutes * 60)) -timeout=20 -rss_limit_mb=2048 -max_len=16384 \
      -print_final_stats=1 -artifact_prefix="$build/fuzz/$target-" "$found" "tests/fuzz/corpus/$target" >"$build/fuzz/$target.log" 2>&1; then
    failed=1
    printf '%s: found something: see %s, and %s\n' "$target" "$build/fuzz/$target.log" \
      "$(find "$build/fuzz" -maxdepth 1 -name "$target-*" -printf '%f ')"
  fi
  printf '%s: %s executions, %s edges and features covered\n' "$target" \
    "$(sed -n 's/^stat::number_of_executed_units: *//p' "$build/fuzz/$target.log")" \
    "$(sed -n 's/.* cov: \([0-9]*\) ft: \([0-9]*\) .*/\1 and \2/p' "$build/fuzz/$target.log" | tail -1)"
done
exit $failed
