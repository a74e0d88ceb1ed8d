#!/bin/bash
# tests/reach/systemd_inside.sh ROUNDS [packages]: what tests/reach/systemd_test.sh runs in the virtual machine, as a service of its systemd.
set -uo pipefail
rounds="$1" packages="${2:-}"
export HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
cd /root || exit 1

say() { echo "systemd_inside: $*"; }
fail() {
  say "FAILED: $*"
  systemctl status traind --no-pager -l -n 30
  tail -n 5 /root/run.log /root/oom.log 2>/dev/null
  exit 1
}
# eventually SECONDS COMMAND...: wait until the command succeeds
eventually() {
  local end=$((SECONDS + $1))
  shift
  until "$@"; do [ "$SECONDS" -lt "$end" ] || return 1; sleep 0.2; done
}
main_pid() { systemctl show -P MainPID traind; }
is_active() { [ "$(systemctl is-active traind)" = active ]; }
is_new() { is_active && [ "$(main_pid)" != 0 ] && [ "$(main_pid)" != "$1" ]; }
workers() { pgrep -u trainrun -f 'sleep 86[4]00' | sort | tr '\n' ' '; }
two_work() { [ "$(workers | wc -w)" = 2 ]; }
# limited: both workers have the memory limit of their claim, and traind is in its own group
limited() {
  [ "$(cat /sys/fs/cgroup/system.slice/traind.service/trainrun-*/rank-*/memory.max 2>/dev/null | sort | uniq -c | tr -s ' ')" = " 2 67108864" ] &&
    grep -qx "0::/system.slice/traind.service/daemon" "/proc/$(main_pid)/cgroup"
}
ready() { [ "$(curl -s -o /dev/null -w '%{http_code}' http://127.0.0.1:7071/-/ready)" = "$1" ]; }

say "$(systemctl --version | head -1)"
install_packages() { dpkg --force-confold -i /usr/local/packages/"$1"/*.deb >/root/dpkg.log 2>&1 || fail "dpkg: $(cat /root/dpkg.log)"; }
if [ -n "$packages" ]; then
  install_packages old
  [ "$(systemctl is-enabled traind traind-drain | tr '\n' ' ')" = "enabled enabled " ] || fail "the units are not enabled"
else
  ldconfig
  systemd-sysusers || fail "systemd-sysusers"
  mkdir -p /etc/traind
fi
systemctl start traind
is_active && fail "traind started without a token"
traind token /etc/traind/token || fail "traind token"
systemctl start traind || fail "traind does not start"
is_active || fail "traind is not active"
[ "$(systemctl show -P StatusText traind)" = "0 runs, 0 supervisors" ] || fail "its status is $(systemctl show -P StatusText traind)"
[ "$(ps -o user= -p "$(main_pid)")" = trainrun ] || fail "it does not run as trainrun"
ready 200 || fail "/-/ready"
systemctl start traind-drain || fail "traind-drain"

cat >/root/job.yaml <<'EOF'
command: [sleep, "86400"]
working_dir: /tmp
scaling_config: {num_workers: 2, resources_per_worker: {CPU: 1, memory: 64MiB}}
run_config: {name: job, storage_path: /tmp/runs}
cluster: {nodes: ["127.0.0.1:7070"], token_file: /etc/traind/token}
EOF
train-run job.yaml >/root/run.log 2>&1 &
launcher=$!
eventually 60 two_work || fail "the job does not start"
eventually 20 limited || fail "workers have no limits: $(grep -r . /sys/fs/cgroup/system.slice/traind.service/*/rank-*/memory.max; cat "/proc/$(main_pid)/cgroup")"
first="$(workers)"

# same WHAT: after WHAT, a new traind has found the same workers, with their limits
same() {
  eventually 60 is_new "$old" || fail "$1: traind did not come back"
  [ "$(workers)" = "$first" ] || fail "$1: workers were $first, and are $(workers)"
  eventually 30 limited || fail "$1: workers have lost their limits: $(grep -r . /sys/fs/cgroup/system.slice/traind.service/*/rank-*/memory.max)"
  eventually 30 ready 200 || fail "$1: not ready"
  kill -0 "$launcher" || fail "$1: train-run has ended"
}
if [ -n "$packages" ]; then
  old="$(main_pid)"
  before="$(traind --version)"
  install_packages new
  [ "$(traind --version)" = "$before" ] || fail "the same programs"   # only the version of the package differs
  same "upgrade"
  say "upgraded from $(dpkg-deb -f /usr/local/packages/old/traind_*.deb Version) to $(dpkg-query -W -f '${Version}' traind): the workers went on"
  dpkg --purge train-run traind >/root/dpkg.log 2>&1 || fail "purge: $(cat /root/dpkg.log)"
  is_active && fail "traind runs after the purge"
  [ "$(workers)" = "" ] || fail "workers are left after the purge: $(workers)"
  for path in /etc/traind /var/lib/traind /etc/default/traind /usr/sbin/traind; do [ ! -e "$path" ] || fail "$path is left after the purge"; done
  say "purged, and nothing is left"
  say "passed"
  exit 0
fi
for ((i = 1; i <= rounds; i++)); do
  old="$(main_pid)"
  systemctl restart traind || fail "restart $i"
  same "restart $i"
done
say "$rounds restarts: the workers went on"
for ((i = 1; i <= rounds; i++)); do
  old="$(main_pid)"
  kill -KILL "$old"
  same "SIGKILL $i"
done
say "$rounds times SIGKILL: the workers went on"

mkdir -p /run/systemd/system/traind.service.d
printf '[Service]\nWatchdogSec=6\n' >/run/systemd/system/traind.service.d/watchdog.conf
systemctl daemon-reload
old="$(main_pid)"
systemctl restart traind
same "restart with another watchdog"
old="$(main_pid)"
kill -STOP "$old"
same "the watchdog"
say "the watchdog ended a traind that did not answer, and the workers went on"

systemctl stop traind || fail "stop"
[ "$(workers)" = "$first" ] || fail "stopping traind ended workers"
old=0
systemctl start traind || fail "start"
same "stop and start"
grep -q 'attempt 1\|restart' /root/run.log && fail "the run began anew: $(cat /root/run.log)"
say "stop and start: the workers went on"

sed 's/name: job/name: oom/; s/, "86400"\]/]/; s/command: \[sleep/command: [tail, \/dev\/zero/' /root/job.yaml >/root/oom.yaml
train-run oom.yaml >/root/oom.log 2>&1
grep -q 'ran out of memory: 64 MiB of the 64 MiB that it claimed' /root/oom.log || fail "lack of memory was not told: $(cat /root/oom.log)"
say "a lack of memory was told"

systemctl stop traind-drain || fail "stopping traind-drain"
is_active && fail "traind runs after its node was drained"
[ "$(systemctl show -P Result traind)" = success ] || fail "a drained traind ended with $(systemctl show -P Result traind)"
[ "$(workers)" = "" ] || fail "workers are left after the drain: $(workers)"
say "traind-drain drained the node"
say "passed"
