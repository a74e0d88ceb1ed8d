#!/usr/bin/env bash
# demo_test.sh BUILD_FOLDER SOURCE_FOLDER: run the demo. Two workers train the CNN on MNIST digits to at least 95 % accuracy on
# held-out digits. In a second run, we kill a worker after the first checkpoint; the group must resume from it. One worker and
# three take the same steps.
set -euo pipefail
build="$1" source="$2"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT

python3 "$source/examples/mnist_ddp/prepare_data.py" --out "$build/data/mnist"

# run NAME [OPTION...]: train in the foreground and write JSON events, one per line, to NAME.events.
run() {
  "$build/bin/train-run" "$source/examples/mnist_ddp/job.yaml" --output json --set "run_config.name=$1" \
    --set "run_config.storage_path=$work" --set "env.DEMO_TEST=$work" --set "command=[\"$build/bin/examples/mnist_ddp\"]" \
    --set "datasets.train.path=$build/data/mnist/train.parquet" --set "datasets.valid.path=$build/data/mnist/valid.parquet" "${@:2}" \
    >"$work/$1.events"
}

# check NAME RESTARTS: check for success and accuracy in exit.json, and for every epoch in the report log.
check() {
  python3 - "$work/$1" "$2" <<'PYTHON'
import json, pathlib, sys
run, restarts = pathlib.Path(sys.argv[1]), int(sys.argv[2])
end = json.loads((run / "exit.json").read_text())
assert end["code"] == 0 and end["outcome"] == "succeeded", end
assert end["metrics"]["accuracy"] >= 0.95, end["metrics"]
assert pathlib.Path(end["best_checkpoint"]).name.startswith("checkpoint_"), end
assert len(json.loads((run / "run.json").read_text())["attempts"]) == restarts + 1, "attempts"
epochs = {r["metrics"]["epoch"] for r in map(json.loads, (run / "metrics.jsonl").open()) if r["rank"] == 0}
assert epochs == {0, 1, 2, 3}, epochs
PYTHON
}

run plain
check plain 0

for workers in 1 3; do
  run "of_$workers" --set "scaling_config.num_workers=$workers" --set scaling_config.resources_per_worker.CPU=0.3 \
    --set train_loop_config.epochs=1
done
python3 - "$work"/of_{1,3}/exit.json <<'PYTHON'
import json, pathlib, sys
one, three = (json.loads(pathlib.Path(path).read_text())["metrics"]["loss"] for path in sys.argv[1:])
assert abs(one - three) < 1e-5, (one, three)  # the same but for rounding; a mean of the ranks' means is 7e-4 away
PYTHON

run killed &
launcher=$!
until [ -d "$work/killed/checkpoints/checkpoint_000001" ]; do
  kill -0 "$launcher" || { echo "the run ended before its first checkpoint"; exit 1; }
  read -rt 0.02 <> <(:) || true   # short wait without starting a process
done
# Find a worker of this run. grep complains about processes that end meanwhile.
victim="$(grep -lszFx "DEMO_TEST=$work" /proc/[0-9]*/environ | head -1 | cut -d/ -f3 || true)"
[ -n "$victim" ] || { echo "no worker was found"; kill "$launcher"; exit 1; }
kill -KILL "$victim"
wait "$launcher"
check killed 1
echo "the demo trains, and survives a killed worker"
