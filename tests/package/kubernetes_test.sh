#!/usr/bin/env bash
# tests/package/kubernetes_test.sh SOURCE_FOLDER BUILD_FOLDER: what `train-run k8s` prints is what packaging/kubernetes has, and is
# right for Kubernetes: kubernetes_schemas.py checks it against the schemas of three versions, with no key that these do not
# know. Skipped (exit code 77) without the schemas, which packaging/deps/install.sh test installs.
set -euo pipefail
source_dir="$1" build="$2"
here="$source_dir/tests/package" train_run="$build/bin/train-run"
python="${TRAINRUN_DEPS_DIR:?}/kubernetes-venv-1/bin/python"
[ -x "$python" ] || { echo "kubernetes_test: skipped: needs $python (packaging/deps/install.sh test)"; exit 77; }
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
failed=0
complain() { printf 'kubernetes_test: %s\n' "$*" >&2; failed=1; }
cd "$work"

# The examples, as packaging/kubernetes/README.md makes them.
while read -r words; do
  read -ra command <<<"${words#train-run }"
  example="${command[-1]}"
  unset 'command[-1]' 'command[-1]'   # > FILE
  (cd "$source_dir/packaging/kubernetes" && "$train_run" "${command[@]}") >"$example" 2>said || complain "$words: $(cat said)"
  diff -u "$source_dir/packaging/kubernetes/$example" "$example" >&2 ||
    complain "packaging/kubernetes/$example is not what \`$words\` prints"
done < <(sed -n 's/^    \(train-run k8s .*\)/\1/p' "$source_dir/packaging/kubernetes/README.md")
[ "$(find . -name '*.k8s.yaml' | wc -l)" -ge 3 ] || complain "README.md has not three examples"

# Others: without GPUs, with all options, with a new Secret, and with texts that would break YAML, were they pasted.
cat >hostile.yaml <<'YAML'
name: x
command: [./train, "$(TOKEN)", "a\n---\nkind: Pod", '{{ .Values }}']
env: {A: "yes", B: "0x1F", C: "1:20", D: "null", E: "~"}
scaling_config: {num_workers: {min: 2, max: 6}, resources_per_worker: {CPU: 0.5, memory: 1GiB, tape: 0.5}}
run_config: {failure_config: {max_failures: -1, stop_grace: 10m}}
YAML
make() {
  local file="$1"
  shift
  "$train_run" k8s "$@" >"$file" 2>said || complain "train-run k8s $*: $(cat said)"
}
for kind in job jobset pool; do
  # shellcheck disable=SC2016
  make "hostile.$kind.k8s.yaml" hostile.yaml --kind "$kind" --nodes 3 --image me/train:1 --set 'train_loop_config.text="$(HOME): {}"'
  make "all.$kind.k8s.yaml" "$source_dir/packaging/kubernetes/mnist.yaml" --kind "$kind" --image me/train@sha256:0123 --name all --namespace ml \
    --nodes 4 --gpus-per-node 8 --storage-claim a.b --token-secret c.d --node-label gpu= --node-label a.b/c=d --folder /opt/x --uid 4242 --writable-root
done
make queue.k8s.yaml hostile.yaml --nodes 6 --image me/train:1 --queue team-a
make queue.jobset.k8s.yaml hostile.yaml --kind jobset --nodes 6 --image me/train:1 --queue team-a

for version in 1.31 1.34 1.37; do
  "$python" "$here/kubernetes_schemas.py" "$version" ./*.k8s.yaml "$source_dir"/tests/golden/kubernetes/*.yaml >said || complain "$(cat said)"
done

# What the schemas would find.
wrong() {
  local version="$1" what="$2" file="$3" change="$4"
  sed "$change" "$file" >wrong.yaml
  if cmp -s wrong.yaml "$file"; then complain "$what: nothing was changed"; fi
  if "$python" "$here/kubernetes_schemas.py" "$version" wrong.yaml >said; then complain "$what was not found"; fi
}
wrong 1.37 "a misspelt key of a pod" queue.k8s.yaml 's/automountServiceAccountToken/automountServiceAccountTokens/'
wrong 1.34 "the missing status of a condition" queue.k8s.yaml '/status: "True"/d'
wrong 1.37 "a misspelt key of a JobSet" queue.jobset.k8s.yaml 's/targetReplicatedJobs/targetReplicatedJob/'
wrong 1.37 "a misspelt key of a JobSet's Job" queue.jobset.k8s.yaml 's/backoffLimit/backofLimit/'
[ "$failed" = 0 ] && echo "kubernetes_test: passed"
