#!/usr/bin/env bash
# tests/package/python_venv_test.sh SOURCE_FOLDER BUILD_FOLDER: check the environment that `make python` makes: the package finds
# its libraries and programs in it, whatever the current folder and the environment are.
set -euo pipefail
source_folder="$(realpath "$1")" build="$(realpath "$2")"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
unset TRAINRUN_LIBRARY PYTHONPATH TRAINRUN_PROGRAM

fail() { printf 'python_venv_test: %s\n' "$*" >&2; exit 1; }
expect() { [ "$2" = "$3" ] || fail "$1: expected '$2', got '$3'"; }

python="$("$source_folder/packaging/python_venv.sh" "$build" "$work/venv")"
"$source_folder/packaging/python_venv.sh" "$build" "$work/venv" >/dev/null   # again: nothing is in its way
expect "the interpreter" "$work/venv/bin/python" "$python"
cd "$work"
cat >train.py <<'PYTHON'
import trainrun

context = trainrun.get_context()
shard = trainrun.get_dataset_shard()
total = sum(int(value) for batch in shard.iter_batches(format="arrow") for value in [batch.valid_rows])
trainrun.report({"rank": context.get_world_rank()})
trainrun.set_result(total)
PYTHON
cat >job.yaml <<YAML
command: [python, train.py]
working_dir: $work
scaling_config: {num_workers: 2, resources_per_worker: {CPU: 0}}
datasets: {train: {format: items, items: [{x: 1}, {x: 2}, {x: 3}]}}
run_config: {name: first, storage_path: $work/runs}
YAML
said="$(PATH="$work/venv/bin:$PATH" train-run job.yaml 2>&1)" || fail "a run: $said"
expect "the results of a run" '[2, 1]' "$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["results"])' runs/first/run.json)"
expect "python -m trainrun --version" "$("$build/bin/train-run" --version)" "$("$python" -m trainrun --version)"
expect "python -m trainrun --library" libtrainrun.so.0 "$(basename "$("$python" -m trainrun --library)")"
echo "python_venv_test: passed"
