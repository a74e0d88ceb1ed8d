#!/usr/bin/env bash
# tests/package/kubernetes_pod_test.sh BUILD_FOLDER: run the container of a Job that `train-run k8s` prints: its own
# command and variables, as its user, with the folders and the Secret as Kubernetes makes them, in a network of its own. The
# probes get their answers while it runs, TERM makes it end with 75, and another start resumes the run. Skipped (exit code 77)
# without root or the Python that reads YAML.
set -euo pipefail
build="$1"
python="${TRAINRUN_DEPS_DIR:?}/kubernetes-venv-1/bin/python"
[ -x "$python" ] || { echo "kubernetes_pod_test: skipped: needs $python (packaging/deps/install.sh test)"; exit 77; }
[ "$(id -u)" = 0 ] || { echo "kubernetes_pod_test: skipped: needs root, for namespaces"; exit 77; }
if [ -z "${IN_NAMESPACES:-}" ]; then exec env IN_NAMESPACES=1 unshare --mount --net --pid --fork --mount-proc "$0" "$@"; fi
ip link set lo up
pod="$(mktemp -d /var/tmp/kubernetes_pod_test.XXXXXX)"
made=()   # folders of this machine, empty, on which others are mounted
clean_up() {
  rm -rf "$pod"
  if [ ${#made[@]} -gt 0 ]; then umount -R "${made[@]}" 2>/dev/null || true; rmdir "${made[@]}"; fi
}
trap clean_up EXIT
fail() { printf 'kubernetes_pod_test: %s\n' "$*" >&2; cat "$pod"/*.log >&2; exit 1; }
chmod 755 "$pod"

cat >"$pod/job.yaml" <<'YAML'
name: pod
command: [sh, -c, 'echo "rank $RANK of $WORLD_SIZE as $(id -u):$(id -g) in $PWD"; touch up; exec sleep 600']
working_dir: /results
scaling_config: {num_workers: 2, resources_per_worker: {CPU: 0}}
run_config: {failure_config: {stop_grace: 5s}}
YAML
"$build/bin/train-run" k8s "$pod/job.yaml" --nodes 1 --image me/train:1 --uid 61234 >"$pod/job.k8s.yaml" 2>"$pod/notes.log"

# The parts of the pod: arguments, each ended by a NUL.
part() {
  "$python" - "$pod/job.k8s.yaml" "$1" <<'PYTHON'
import sys, yaml
objects = {one["kind"]: one for one in yaml.safe_load_all(open(sys.argv[1]))}
spec = objects["Job"]["spec"]["template"]["spec"]
container = spec["containers"][0]
parts = {
    "command": container["command"],
    "variables": [f"{one['name']}={one['value']}" for one in container["env"]],
    "user": [str(spec["securityContext"]["runAsUser"])],
    "token": [objects["Secret"]["stringData"]["token"]],
    "job": [objects["ConfigMap"]["data"]["job.yaml"]],
}
# Kubernetes replaces $$ by $ in these two.
print("\0".join(text.replace("$$", "$") if sys.argv[2] in ("command", "variables") else text for text in parts[sys.argv[2]]), end="\0")
PYTHON
}
mapfile -d '' -t command < <(part command)
mapfile -d '' -t variables < <(part variables)
user="$(part user | tr -d '\0')"

# Volumes: an emptyDir may be written by all; a Secret is a tmpfs of root with links, readable for the group.
mount --make-rprivate /
mkdir "$pod/results" && chmod 777 "$pod/results"
for folder in /workspace /results /etc/trainrun; do
  [ -d "$folder" ] || { mkdir "$folder" && made+=("$folder"); }
done
mount -t tmpfs -o mode=755 tmpfs /workspace
mount --bind "$pod/results" /results
mount -t tmpfs -o mode=755 tmpfs /etc/trainrun
mkdir -m 3777 /etc/trainrun/secret
mkdir /etc/trainrun/secret/..data
part token | tr -d '\0' >/etc/trainrun/secret/..data/token
chmod 0440 /etc/trainrun/secret/..data/token
chgrp -R "$user" /etc/trainrun/secret
ln -s ..data/token /etc/trainrun/secret/token
part job | tr -d '\0' >/workspace/job.yaml
echo "127.0.0.1 localhost pod" >"$pod/hosts"
mount --bind "$pod/hosts" /etc/hosts
echo "hosts: files" >"$pod/nsswitch"
mount --bind "$pod/nsswitch" /etc/nsswitch.conf
mount -t tmpfs -o mode=0777 tmpfs /tmp

start() {
  setpriv --reuid "$user" --regid "$user" --clear-groups --inh-caps=-all --no-new-privs env -i "PATH=$build/bin:/usr/bin:/bin" \
    JOB_COMPLETION_INDEX=0 "${variables[@]}" "${command[@]}" >"$pod/$1.log" 2>&1 &
  train_run=$!
}
# until_true COMMAND...: wait up to a minute.
until_true() {
  for _ in $(seq 600); do
    if "$@" >/dev/null 2>&1; then return 0; fi
    kill -0 "$train_run" 2>/dev/null || return 1
    sleep 0.1
  done
  return 1
}
probed() { curl -fsS "http://127.0.0.1:7071/-/$1"; }
end_by_term() {
  local code=0
  kill -TERM "$train_run"
  wait "$train_run" || code=$?
  [ "$code" = 75 ] || fail "TERM made it end with $code, not 75"
}

start first
until_true test -e "$pod/results/up" || fail "no worker has started"
until_true grep -q "rank 1 of 2 as $user:$user in /results" "$pod/first.log" ||
  fail "rank 1 has said nothing"
probed healthy >/dev/null || fail "traind is not healthy"
probed ready >/dev/null || fail "traind is not ready"
end_by_term
rm "$pod/results/up"
start second
until_true test -e "$pod/results/up" || fail "the second pod has not resumed the run"
[ "$(find "$pod/results" -mindepth 1 -maxdepth 1 -type d | wc -l)" = 1 ] || fail "the second pod has begun another run"
end_by_term
echo "kubernetes_pod_test: passed"
