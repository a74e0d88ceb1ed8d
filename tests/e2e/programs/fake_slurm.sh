#!/usr/bin/env bash
# Plays Slurm's commands for tests without Slurm, by the name under which it is called:
#   srun      starts the program once for each node, with the variables that a task has, gives its own standard input to all of
#             them, and ends when they have. FAKE_SLURM says otherwise: refused, no-traind, old-traind, mute.
#   squeue    prints the file time-left.
#   scontrol  does nothing.
# Each call's words become a line of NAME.calls, in the folder FAKE_SLURM_DIR.
set -u
name="$(basename "$0")"
printf '%s\n' "$*" >>"$FAKE_SLURM_DIR/$name.calls"
case "$name" in
  squeue) cat "$FAKE_SLURM_DIR/time-left"; exit ;;
  scontrol) exit ;;
esac

env | cut -d= -f1 | sort >"$FAKE_SLURM_DIR/srun.variables"
nodes=1
while [[ "$1" == --* ]]; do
  [[ "$1" != --nodes=* ]] || nodes="${1#--nodes=}"
  shift
done
case "${FAKE_SLURM:-}" in
  refused) echo "srun: error: Unable to create step for job 7: Invalid account" >&2; exit 1 ;;
  no-traind) echo "slurmstepd-n2: error: execve(): $1: No such file or directory" >&2
    echo "srun: error: n2: task 1: Exited with exit code 2" >&2; cat >/dev/null; exit 2 ;;
  old-traind) echo "traind: The following argument was not expected: --announce" >&2
    echo "srun: error: n1: task 0: Exited with exit code 64" >&2; cat >/dev/null; exit 64 ;;
esac

echo "Welcome to the cluster: this is no announcement"
inputs="$(mktemp -d "$FAKE_SLURM_DIR/srun.XXXXXX")"
for ((i = 1; i <= nodes; i++)); do
  mkfifo "$inputs/$i"
  TRAINRUN_FAKE_NVML="${FAKE_SLURM_NVML:-}" SLURMD_NODENAME="n$i" SLURM_PROCID=$((i - 1)) SLURM_NTASKS="$nodes" SLURM_STEP_ID=0 SLURM_CPUS_ON_NODE=2 PMI_RANK=$((i - 1)) \
    SLURM_LAUNCH_NODE_IPADDR=127.0.0.1 CUDA_VISIBLE_DEVICES=$((i % 2)) "$@" <"$inputs/$i" &
done
trap '' TERM USR1
tee "$inputs"/* >/dev/null
wait
rm -r "$inputs"
