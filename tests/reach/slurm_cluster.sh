#!/usr/bin/env bash
# tests/reach/slurm_cluster.sh FOLDER COMMAND...: start a Slurm cluster of the nodes n1 and n2, run the command, and end it. It
# must run in namespaces of its own, with which all processes and networks go:
#   unshare --mount --net --pid --uts --fork --kill-child --propagation private tests/reach/slurm_cluster.sh FOLDER COMMAND...
# All files are in FOLDER. Each node is a network namespace with 16 "cores" and two "GPUs". With SLURM_CLUSTER_CGROUPS=1, memory is
# limited by cgroups (v1), which the caller removes: slurm_n1 and slurm_n2.
set -euo pipefail
folder="$1"; shift
fail() { printf 'slurm_cluster: %s\n' "$*" >&2; tail -n 5 "$folder"/*.log >&2 || true; exit 1; }

mount -t proc proc /proc
mount -t tmpfs tmpfs /run
mkdir -p /run/netns "$folder"/{state,spool/n1,spool/n2,dev}
printf '127.0.0.1 localhost\n10.77.0.1 ctl\n10.77.0.11 n1\n10.77.0.12 n2\n' >"$folder/hosts"
mount --bind "$folder/hosts" /etc/hosts
hostname ctl
ip link set lo up
ip link add hub0 type bridge
ip addr add 10.77.0.1/24 dev hub0
ip link set hub0 up
for i in 1 2; do
  ip netns add "n$i"
  ip link add "v$i" type veth peer name eth0 netns "n$i"
  ip link set "v$i" master hub0 up
  ip -n "n$i" link set lo up
  ip -n "n$i" addr add "10.77.0.1$i/24" dev eth0
  ip -n "n$i" link set eth0 up
  mknod "$folder/dev/nvidia$((i - 1))" c 1 3   # Slurm asks for devices
done

node() { echo "NodeName=n$1 NodeAddr=10.77.0.1$1 NodeHostname=n$1 CPUs=16 Boards=1 SocketsPerBoard=1 CoresPerSocket=16 ThreadsPerCore=1 RealMemory=4000 Gres=gpu:2 State=UNKNOWN"; }
if [ -n "${SLURM_CLUSTER_CGROUPS:-}" ]; then
  confinement=$'ProctrackType=proctrack/cgroup\nTaskPlugin=task/cgroup\nJobAcctGatherType=jobacct_gather/cgroup\nSelectTypeParameters=CR_CPU_Memory'
  printf 'CgroupPlugin=cgroup/v1\nConstrainRAMSpace=yes\n' >"$folder/cgroup.conf"
else
  confinement=$'ProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\nSelectTypeParameters=CR_CPU'
fi
cat >"$folder/slurm.conf" <<CONF
ClusterName=trainrun
SlurmctldHost=ctl(10.77.0.1)
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket=$folder/munge.socket
SlurmUser=root
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool/%n
SlurmdPidFile=$folder/slurmd-%n.pid
SlurmctldPidFile=$folder/slurmctld.pid
SlurmctldLogFile=$folder/slurmctld.log
SlurmdLogFile=$folder/slurmd-%n.log
$confinement
MpiDefault=none
ReturnToService=2
SelectType=select/cons_tres
JobRequeue=1
SlurmdParameters=config_overrides
SchedulerParameters=sched_interval=2
KillWait=30
GresTypes=gpu
$(node 1)
$(node 2)
PartitionName=batch Nodes=n1,n2 Default=YES MaxTime=INFINITE State=UP
CONF
printf 'Name=gpu File=%s/dev/nvidia[0-1]\n' "$folder" >"$folder/gres.conf"
export SLURM_CONF="$folder/slurm.conf"
head -c 1024 /dev/urandom >"$folder/key"
chmod 600 "$folder/key"
munged --key-file="$folder/key" --socket="$folder/munge.socket" --pid-file="$folder/munged.pid" --log-file="$folder/munged.log" \
  --seed-file="$folder/munged.seed" --force
slurmctld -D -c >/dev/null 2>&1 &
for i in 1 2; do
  nsenter --net="/run/netns/n$i" unshare --uts --mount sh -c "hostname n$i; exec slurmd -D -N n$i" >/dev/null 2>&1 &
done
for ((i = 0; i < 300; i++)); do
  [ "$(sinfo -h -N -o %t 2>/dev/null | grep -cx idle)" = 2 ] && break
  sleep 0.1
done
[ "$(sinfo -h -N -o %t | grep -cx idle)" = 2 ] || fail "its nodes did not come up"
"$@"
