#!/usr/bin/env bash
# tests/reach/slurm_test.sh BUILD_FOLDER [RUNS]: run jobs under a real slurmctld and slurmd, on two nodes (slurm_cluster.sh): the
# time to the first line (RUNS times, default 10), each signal that Slurm sends, requeues, GPUs, the end of the job's time. It
# skips (exit code 77) if what packaging/deps/install.sh reach installs is missing.
# shellcheck disable=SC2317   # trap and until_true call functions
set -euo pipefail

build="$(realpath "$1")" runs="${2:-10}"
here="$(realpath "$(dirname "${BASH_SOURCE[0]}")")"
skip() { echo "slurm_test: skipped: $*"; exit 77; }
[ "$(id -u)" = 0 ] || skip "needs root"
for program in slurmctld slurmd munged srun sbatch ip nsenter; do
  command -v "$program" >/dev/null || skip "needs packaging/deps/install.sh reach"
done
cgroups=/sys/fs/cgroup/memory/slurm_n1
if [ "${3:-}" = "" ]; then
  folder="$(mktemp -d /tmp/slurm_test.XXXXXX)"
  clean_up() {
    rm -rf "$folder"
    [ -z "${SLURM_CLUSTER_CGROUPS:-}" ] || find /sys/fs/cgroup/*/slurm_n[12] -depth -type d -exec rmdir {} \;
  }
  trap clean_up EXIT
  cluster() {
    unshare --mount --net --pid --uts --fork --kill-child --propagation private "$here/slurm_cluster.sh" "$folder" \
      "$(realpath "${BASH_SOURCE[0]}")" "$build" "$runs" "$1"
    rm -rf "${folder:?}"/*
  }
  cluster signals
  [ -e /sys/fs/cgroup/memory/memory.limit_in_bytes ] || { echo "slurm_test: passed, but for memory: needs cgroup v1"; exit; }
  [ ! -e "$cgroups" ] || { echo "slurm_test: passed, but for memory: there is $cgroups"; exit; }
  export SLURM_CLUSTER_CGROUPS=1
  cluster memory
  exit
fi

work="$(dirname "$SLURM_CONF")/work"
mkdir -p "$work"/{rt,tmp}
cd "$work"
export PATH="$build/bin:$PATH" HOME="$work" XDG_RUNTIME_DIR="$work/rt" TMPDIR="$work/tmp"
failures=0
fail() { printf 'slurm_test: %s\n' "$*" >&2; failures=$((failures + 1)); }

# until_true SECONDS COMMAND...: wait until it succeeds.
until_true() {
  local until=$((SECONDS + $1)); shift
  while ! "$@" 2>/dev/null; do [ "$SECONDS" -lt "$until" ] || return 1; sleep 0.1; done
}
gone() { [ -z "$(squeue -h -j "$1" 2>/dev/null)" ]; }
reported() { [ "$(wc -l <"$work/runs/$1/metrics.jsonl")" -ge "$2" ]; }
outcome() { sed -n 's/.*"outcome": *"\([a-z]*\)".*/\1/p' "runs/$1/exit.json" 2>/dev/null; }

# training NAME EPOCHS [CLUSTER]: a job of two ranks on two nodes, which report once in 20 ms and make a checkpoint when stopped.
training() {
  cat >"$1.yaml" <<YAML
name: $1
command: [$build/tests/programs/sdk_worker]
train_loop_config: {mode: epochs, epochs: $2, checkpoint_every: 0, step_ms: 20, on_stop: true}
scaling_config: {num_workers: 2, placement_strategy: STRICT_SPREAD, resources_per_worker: {CPU: 1}}
run_config: {storage_path: $work/runs}
cluster: {${3:-stop_before_end: 0s}}
YAML
}
# submit NAME OPTIONS [TRAIN_RUN_OPTIONS]: print the job's number.
submit() {
  printf '#!/bin/bash\nexec train-run %s.yaml %s\n' "$1" "${3:-}" >"$1.sh"
  # shellcheck disable=SC2086
  sbatch --parsable --nodes=2 --ntasks-per-node=1 --cpus-per-task=2 --open-mode=append --output="$1.out" $2 "$1.sh"
}

left() { ps -eo pid=,comm= | sed -nE '/ (train-run|traind|sdk_worker|srun|slurmstepd)$/p'; find rt tmp -mindepth 1 -maxdepth 1; }
nothing_left() { [ -z "$(left)" ]; }
finish() {
  until_true 30 nothing_left || fail "left: $(left)"
  [ "$failures" = 0 ] || exit 1
  echo "slurm_test: $1 passed"
  exit
}

if [ "$3" = memory ]; then
  cat >memory.yaml <<YAML
name: memory
command: [$build/tests/programs/plain_worker, eat, 400, print, survived]
scaling_config: {num_workers: 2, placement_strategy: STRICT_SPREAD, resources_per_worker: {CPU: 1}}
run_config: {storage_path: $work/runs}
YAML
  job="$(submit memory --mem=300)"
  until_true 60 gone "$job" || fail "memory does not end"
  grep -q 'ran out of memory: all 300 MiB that Slurm gave it are used' memory.out || fail "memory: $(cat memory.out)"
  finish memory
fi

# ---- the time to the first line
cat >first.yaml <<YAML
command: [sh, -c, 'echo "at \$(date +%s%N) on \$(hostname)"; env >env.\$RANK']
scaling_config: {num_workers: 2, placement_strategy: STRICT_SPREAD, resources_per_worker: {CPU: 1}}
run_config: {storage_path: $work/runs}
YAML
times=()
for ((i = 0; i < runs; i++)); do
  printf '#!/bin/bash\ndate "+began %%s%%N"\nexec train-run first.yaml\n' >first.sh
  sbatch --wait --nodes=2 --ntasks-per-node=1 --cpus-per-task=2 --output=first.out first.sh >/dev/null || fail "first: $(cat first.out)"
  began="$(sed -n 's/^began //p' first.out)" last="$(sed -n 's/.*at \([0-9]*\) on .*/\1/p' first.out | sort -n | tail -1)"
  times+=($(((last - began) / 1000000)))
done
for node in n1 n2; do grep -q "on $node\$" first.out || fail "no worker ran on $node: $(cat first.out)"; done
echo "slurm_test: script -> first line of both ranks, $runs runs, ms: $(printf '%s\n' "${times[@]}" | sort -n | tr '\n' ' ')"
grep -q '^SLURM_JOB_ID=' env.1 || fail "workers do not know their job"
if grep -qE '^(SLURM_(PROCID|NTASKS|STEP_ID|LOCALID)|SLURMD_NODENAME|PMI)' env.0 env.1; then fail "workers look like tasks of Slurm"; fi

# ---- GPUs, which a fake NVML plays; the second job gets what the first has left
printf '#!/bin/sh\nexport LD_LIBRARY_PATH=%s/tests/fake_nvml TRAINRUN_FAKE_NVML=%s/nvml\nexec %s/bin/traind "$@"\n' "$build" "$work" "$build" >traind.sh
chmod +x traind.sh
echo 'gpus 2' >nvml
cat >gpus.yaml <<YAML
command: [sh, -c, 'echo "\$(hostname): \$CUDA_VISIBLE_DEVICES."; while [ -e hold ]; do sleep 0.1; done']
scaling_config: {num_workers: 2, use_gpu: true, placement_strategy: STRICT_SPREAD, resources_per_worker: {CPU: 1}}
run_config: {storage_path: $work/runs}
YAML
touch hold
first="$(TRAINRUN_TRAIND=$work/traind.sh submit gpus --gres=gpu:1)"
until_true 30 grep -q 'n2: ' gpus.out || fail "GPUs: $(cat gpus.out)"
mv gpus.out gpus.first
cp gpus.yaml gpus2.yaml
second="$(TRAINRUN_TRAIND=$work/traind.sh submit gpus2 --gres=gpu:1)"
until_true 30 grep -q 'n2: ' gpus2.out || fail "more GPUs: $(cat gpus2.out)"
rm hold
for job in "$first" "$second"; do until_true 30 gone "$job" || fail "a job with GPUs does not end"; done
for node in n1 n2; do
  both="$(sed -n "s/.*$node: \([0-9,]*\)\..*/\1/p" gpus.first gpus2.out | sort | tr '\n' ' ')"
  [ "$both" = '0 1 ' ] || fail "GPUs of two jobs on $node: $both"
done

# ---- GPUs that a job asks for by task, from a shell that is on none of its nodes
sed "s/num_workers: 2/num_workers: 4/; s/placement_strategy: STRICT_SPREAD/workers_per_node: 2/" gpus.yaml >by_task.yaml
TRAINRUN_TRAIND=$work/traind.sh timeout 60 salloc --nodes=2 --ntasks-per-node=2 --cpus-per-task=2 --gpus-per-task=1 train-run by_task.yaml \
  >by_task.out 2>&1 || fail "salloc: $(cat by_task.out)"
for node in n1 n2; do grep -q "$node: 0,1\." by_task.out || fail "GPUs by task on $node: $(cat by_task.out)"; done

# ---- a job that --requeue starts again, before slurmctld does that for exit code 75
requeued() { # NAME JOB EPOCHS
  until_true 60 sh -c "scontrol show job $2 | grep -q 'Restarts=1'" || { fail "$1 was not requeued: $(cat "$1.out")"; return; }
  until_true 60 scontrol update "JobId=$2" StartTime=now   # Slurm would wait for two minutes
  until_true 120 gone "$2" || fail "$1 does not end"
  [ "$(outcome "$1")" = succeeded ] || fail "$1: $(cat "$1.out")"
  # Each step of each rank is there once.
  [ "$(grep -o '"epoch":[0-9]*' "runs/$1/metrics.jsonl" | sort | uniq -c | awk '{print $1}' | sort -u)" = 2 ] || fail "$1 lost or repeated steps"
  [ "$(grep -c '"epoch"' "runs/$1/metrics.jsonl")" = $((2 * $3)) ] || fail "$1: $(grep -c '"epoch"' "runs/$1/metrics.jsonl") reports"
}
training by_option 300
job="$(submit by_option "" --requeue)"
until_true 30 reported by_option 20 || fail "by_option: $(cat by_option.out)"
scancel --batch --signal=USR1 "$job"
requeued by_option "$job" 300
echo 'RequeueExit=75' >>"$SLURM_CONF"
scontrol reconfigure
training by_code 300
job="$(submit by_code "")"
until_true 30 reported by_code 20 || fail "by_code: $(cat by_code.out)"
scancel --signal=USR1 "$job"
requeued by_code "$job" 300
sed -i '/^RequeueExit/d' "$SLURM_CONF"
scontrol reconfigure

# ---- each signal: the run ends in good order, with a checkpoint
declare -A jobs
begin() { # NAME OPTIONS [CLUSTER]
  training "$1" 1000000 "${3:-}"
  jobs[$1]="$(submit "$1" "$2")"
}
begin warned_script '--time=1 --signal=B:USR1@10'
begin warned_step '--time=1 --signal=USR1@10'
begin time_limit '--time=1'
begin own_end '--time=1' 'stop_before_end: 5s'
declare -A sent=([step_usr1]='--signal=USR1' [script_usr1]='--batch --signal=USR1' [all_usr1]='--full --signal=USR1'
  [all_term]='--full --signal=TERM' [step_term]='--signal=TERM' [cancelled]='')
for name in "${!sent[@]}"; do
  begin "$name" '--time=10'
  until_true 60 reported "$name" 20 || fail "$name: $(cat "$name.out")"
  # shellcheck disable=SC2086
  scancel ${sent[$name]} "${jobs[$name]}"
  until_true 60 gone "${jobs[$name]}" || fail "$name does not end"
done
for name in "${!jobs[@]}"; do
  until_true 150 gone "${jobs[$name]}" || fail "$name does not end"
  [ "$(outcome "$name")" = preempted ] || fail "$name ended otherwise: $(cat "$name.out")"
  [ "$(find "runs/$name/checkpoints" -maxdepth 1 -name 'checkpoint_*' | wc -l)" = 1 ] || fail "$name has no checkpoint: $(cat "$name.out")"
done
grep -q "the time limit of Slurm's job" own_end.out || fail "own_end did not see the end coming: $(cat own_end.out)"

# ---- a launcher that dies takes everything along
training killed 1000000
job="$(submit killed "")"
until_true 30 reported killed 20 || fail "killed: $(cat killed.out)"
kill -KILL "$(ps -eo pid=,comm= | sed -nE 's/^ *([0-9]+) train-run$/\1/p')"
until_true 60 gone "$job" || fail "killed does not end"

finish signals
