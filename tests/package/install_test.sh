#!/usr/bin/env bash
# tests/package/install_test.sh BUILD_FOLDER TORCH: install into a new prefix, build a user's project against it, and run its
# programs by hand. TORCH is 1 if the build has LibTorch.
set -euo pipefail

build="$1" torch="$2"
project="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/user_project"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
prefix="$work/prefix"

fail() { printf 'install_test: %s\n' "$*" >&2; exit 1; }

# expect NAME WANTED FOUND: compare the complete texts
expect() {
  [ "$2" = "$3" ] || fail "$1:
--- wanted
$2
--- found
$3"
}

# run PROGRAM [ARGUMENT...]: print its output; start it in its own folder, without a launcher's environment
run() {
  local name; name="$(basename "$1")"
  mkdir -p "$work/run-$name"
  (cd "$work/run-$name" && env -u TRAINRUN_SOCKET OMP_NUM_THREADS=1 CUDA_VISIBLE_DEVICES= "$@") || fail "$name ended with $?"
}

cmake --install "$build" --prefix "$prefix" >"$work/install.log" || { cat "$work/install.log"; fail "cmake --install failed"; }

for file in bin/train-run bin/traind sbin/traind libexec/trainrun/trainrun-unwind libexec/trainrun/trainrun-pmix libexec/trainrun/train-data lib/trainrun/libparquet.so.2600 lib/libtrainrun_flight.so lib/trainrun/libarrow_flight.so.2600 lib/libtrainrun.so lib/libtrainrun_data.so include/train/train.h include/train/train_c.h include/train/train_data_c.h include/train/dataset.h \
            share/man/man1/train-run.1 share/man/man8/traind.8 share/doc/trainrun/LICENSE share/doc/trainrun/dygraphs.copyright lib/libtrainrun_http.so \
            share/trainrun/prometheus/alerts.yaml share/trainrun/grafana/trainrun.json \
            lib/systemd/system/traind.service lib/systemd/system/traind-drain.service lib/sysusers.d/traind.conf lib/tmpfiles.d/traind.conf \
            share/bash-completion/completions/train-run share/zsh/site-functions/_train-run share/fish/vendor_completions.d/train-run.fish; do
  [ -s "$prefix/$file" ] || fail "$file was not installed"
done
for unit in traind traind-drain; do
  expect "what $unit.service runs" "$prefix/sbin/traind" "$(sed -nE 's/^Exec[A-Za-z]*=-?([^ ]*traind) .*/\1/p' "$prefix/lib/systemd/system/$unit.service" | sort -u)"
done
version="$(sed -n 's/^CMAKE_PROJECT_VERSION:.*=//p' "$build/CMakeCache.txt")"
for program in train-run traind; do
  [[ "$("$build/bin/$program" --version)" =~ ^$program\ ${version//./\\.}(\+|$) ]] || fail "$program --version is not that of project(), $version"
  grep -rqF "trainrun $version" "$prefix/share/man/"*/"$program."* || fail "the man page of $program does not have the version $version"
done
expect "the installed train-run" "$("$build/bin/train-run" --version)" "$("$prefix/bin/train-run" --version)"
expect "the installed traind" "$("$build/bin/traind" --version)" "$("$prefix/bin/traind" --version)"

printf 'command: ["true"]\nscaling_config: {num_workers: 1}\ndatasets: {numbers: {path: %s/numbers.csv}}\n' "$work" >"$work/data.yaml"
printf 'x,y\n1,2.5\n3,4\n' >"$work/numbers.csv"
# Without its environment, and without the folder from which it was built.
[[ "$(env -i "$prefix/bin/train-run" data inspect "$work/data.yaml")" == "dataset numbers: csv, 1 file, 1 unit, 2 rows,"* ]] ||
  fail "the installed train-run data inspect does not work"

mkdir -p "$work/merged/bin"
ln -s bin "$work/merged/sbin"
cmake --install "$build" --prefix "$work/merged" >"$work/install.log" || { cat "$work/install.log"; fail "cmake --install failed"; }
expect "traind where sbin is a link to bin" "$("$build/bin/traind" --version)" "$("$work/merged/bin/traind" --version)"
rm -rf "$work/merged"

launcher=()
command -v ccache >/dev/null && launcher=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
{ cmake -S "$project" -B "$work/build" -DCMAKE_BUILD_TYPE=Release -DCMAKE_PREFIX_PATH="$prefix" -DUSER_TORCH="$torch" -DUSER_VERSION="${version%.*}" "${launcher[@]}" &&
  cmake --build "$work/build"; } >"$work/build.log" 2>&1 || { cat "$work/build.log"; fail "the user's project does not build"; }

expect "a program with trainrun::sdk" \
'checkpoint of report 1: checkpoints/checkpoint_000001
checkpoint of report 2: checkpoints/checkpoint_000002
report 1: epoch=0 loss=0.5
report 2: epoch=1 loss=0.3333333333333333' "$(run "$work/build/user_sdk" | LC_ALL=C sort)"

expect "a program with trainrun::c" 'report 1: loss=0.5' "$(run "$work/build/user_c")"

echo '{"datasets": {"train": {"format": "items", "items": [{"x": 1}, {"x": 2}, {"x": 3}]}}}' >"$work/spec.json"
expect "a program with trainrun::data" 'report 1: rows=3' "$(run "$work/build/user_data" "--trainrun-spec=$work/spec.json")"

if [ "$torch" = 1 ]; then
  expect "a program with trainrun::torch" \
'report 1: loss=4.0 step=0
report 2: loss=1.44 step=1' "$(run "$work/build/user_torch")"
fi
echo "install_test: passed"
