#!/bin/bash
# hang_soak.sh BUILD MINUTES: run workers that are slow, but healthy, with hang detection on, beside
# busy loops, and count those that it accuses: there must be none. Prints one line a run, and
# fails if somebody was accused or a run failed.
set -euo pipefail

build=$(realpath "$1")
minutes=$2
folder=$(mktemp -d "${TMPDIR:-/tmp}/hang-soak.XXXXXX")
busy=()
for _ in 1 2; do
  nice -n 19 bash -c 'while :; do :; done' &
  busy+=($!)
done
trap 'kill "${busy[@]}" 2>/dev/null' EXIT

# The limits are two to five times what soak_worker.cc takes.
declare -A limits=(
  [given]="hang_timeout: 30s, phase_timeouts: {checkpoint: 1m, eval: 1m, download: 20s}"
  [learned]="hang_action: observe"
)
declare -A runs=()
for name in "${!limits[@]}"; do
  cat >"$folder/$name.yaml" <<YAML
command: [$build/tests/programs/soak_worker]
train_loop_config: {minutes: $minutes}
scaling_config: {num_workers: 3, resources_per_worker: {CPU: 0}}
run_config:
  name: $name
  storage_path: $folder/results
  failure_config: {${limits[$name]}}
YAML
  "$build/bin/train-run" "$folder/$name.yaml" >"$folder/$name.log" 2>&1 &
  runs[$name]=$!
done

bad=0
for name in "${!runs[@]}"; do
  code=0
  wait "${runs[$name]}" || code=$?
  accused=$(grep -cE ' hangs? in | hangs?: ' "$folder/$name.log" || true)
  suspected=$(grep -cE ' counts? as hung' "$folder/$name.log" || true)
  reports=$(cat "$folder"/results/"$name"*/metrics.jsonl | wc -l)
  echo "$name: exit code $code, $reports reports, $accused accused, $suspected near their limit"
  if [ "$code" != 0 ] || [ "$accused" != 0 ]; then bad=1; fi
done
if [ "$bad" = 0 ]; then rm -r "$folder"; else echo "see $folder"; fi
exit "$bad"
