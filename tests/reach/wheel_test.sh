#!/usr/bin/env bash
# tests/reach/wheel_test.sh BUILD_FOLDER: check the wheel that `make wheel` left in BUILD_FOLDER/wheel: what auditwheel says;
# install it into a new environment without network, and use it there, as another user, too; build programs against it where
# Debian's development packages are removed; and run its programs in a Debian 13, which has none of the libraries. It skips
# (exit code 77) if there is no wheel, or no way to do this.
set -euo pipefail

source_folder="$(realpath "$(dirname "${BASH_SOURCE[0]}")/../..")"
skip() { echo "wheel_test: skipped: $*"; exit 77; }
fail() { printf 'wheel_test: %s\n' "$*" >&2; exit 1; }
# expect NAME WANTED FOUND
expect() { [ "$2" = "$3" ] || fail "$1: '$3', not '$2'"; }
compgen -G "$1/wheel/trainrun-*.whl" >/dev/null || skip "needs make wheel"
[ "$(id -u)" = 0 ] || skip "needs root"
deps="${TRAINRUN_DEPS_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/trainrun/deps}"
[ -x "$deps/wheel-venv-1/bin/auditwheel" ] || skip "needs packaging/deps/install.sh wheel"
build="$(realpath "$1")"
wheel="$(echo "$build"/wheel/trainrun-*.whl)"
version="$(sed -n 's/^CMAKE_PROJECT_VERSION:.*=//p' "$build/CMakeCache.txt")"
unset TRAINRUN_LIBRARY PYTHONPATH

# layer BUILD_FOLDER layer ROOT SCRIPT FILES: run a script in a layer in memory above the root of a system, with the wheel in
# /wheel, and unpacked in /wheel/files. All of it is gone when this process is.
if [ "${2:-}" = layer ]; then
  layer="$(mktemp -d)"
  trap 'umount -l "$layer"; rmdir "$layer"' EXIT
  mount -t tmpfs layer "$layer" && mkdir "$layer"/{root,upper,scratch}
  mount -t overlay -o "lowerdir=$3,upperdir=$layer/upper,workdir=$layer/scratch" root "$layer/root" 2>/dev/null || skip "needs overlayfs"
  for folder in dev sys; do mount --rbind "/$folder" "$layer/root/$folder"; done
  for folder in run tmp; do mount -t tmpfs "$folder" "$layer/root/$folder"; done
  mount -t proc proc "$layer/root/proc"
  mkdir -p "$layer"/root/wheel/{pyarrow,pictures}
  cp "$wheel" "$source_folder/tests/package/user_project/user_data.cc" "$layer/root/wheel/"
  cp "$source_folder"/tests/unit/lib_data/pictures/rgb.{png,jpg} "$layer/root/wheel/pictures/"
  mount --bind "$deps/pyarrow-26.0.1/pyarrow" "$layer/root/wheel/pyarrow"
  cp -r "$5" "$layer/root/wheel/files" && cp "$4" "$layer/root/check.sh"
  chroot "$layer/root" env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin bash /check.sh
  exit
fi
work="$(mktemp -d)"
chmod 755 "$work"   # another user looks into it
trap 'rm -rf "$work"' EXIT

# inside ROOT, with a script on its standard input
inside() {
  cat >"$work/check.sh"
  unshare --mount --pid --fork --propagation private "$0" "$build" layer "$1" "$work/check.sh" "$work/files" || exit
}

# 1. The file.
expect "the wheel's name" "trainrun-$version-py3-none-manylinux_2_34_x86_64.whl" "$(basename "$wheel")"
"$deps/wheel-venv-1/bin/auditwheel" show "$wheel" >"$work/audit" || fail "auditwheel: $(cat "$work/audit")"
tag="$(tr '\n' ' ' <"$work/audit" | sed -nE 's/.*consistent with *the following platform tag: *"manylinux_2_([0-9]+)_x86_64".*/\1/p')"
[ "${tag:-99}" -le 34 ] || fail "auditwheel says: $(cat "$work/audit")"
mkdir "$work/files" && (cd "$work/files" && python3 -m zipfile -e "$wheel" .)
"$source_folder/tests/package/hardening_test.sh" --files "$work/files" || fail "the wheel's programs are not as hard as the others"
needed="$(find "$work/files" -type f \( -path '*.data/scripts/*' -o -name trainrun-unwind -o -name trainrun-pmix -o -name '*.so*' \) -print0 | xargs -0 -n1 readelf -d |
  sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | sort -u | tr '\n' ' ')"
expect "what the programs need" "ld-linux-x86-64.so.2 libc.so.6 libgcc_s.so.1 libm.so.6 " "$needed"
info="$work/files/trainrun-$version.dist-info"
grep -qx "Version: $version" "$info/METADATA" || fail "METADATA is of another version"
for extra in torch data; do grep -qx "Provides-Extra: $extra" "$info/METADATA" || fail "METADATA has no extra $extra"; done
for name in LICENSE openssl boost1.81 fmt spdlog prometheus msgpack gcc-12 elfutils xxhash; do
  [ -s "$info/licenses/$name" ] || fail "the licence of $name is missing"
done
for name in sdk data; do   # in C, __cxa_throw alone is as others name it
  names="$(nm --defined-only -g "$work/files/trainrun/lib/libtrainrun_$name.a" 2>/dev/null | awk 'NF == 3 { print $3 }' |
    grep -E '5boost|3fmt2|7msgpack|^[^_]|^_[^_Z]' | grep -Ev '^trainrun_|^DW.ref|[0-9]trainrun_(boost|fmt|msgpack)' | head -3 || true)"
  expect "third parties' names in libtrainrun_$name.a" "" "$names"
done

# 2. In a new environment, without network, as another user than the one who installed it.
/usr/bin/python3 -m venv "$work/venv"   # its user may not look into the root's home
"$work/venv/bin/pip" install -q --disable-pip-version-check --no-index --no-cache-dir "$wheel" || fail "pip install"
cat >"$work/job.py" <<'PYTHON'
import os, signal, trainrun
context, checkpoint = trainrun.get_context(), trainrun.get_checkpoint()
first = checkpoint.to_value()["epoch"] + 1 if checkpoint else 0
for epoch in range(first, 3):
    if context.get_attempt() == 0 and epoch == 2 and context.get_world_rank() == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    trainrun.report({"epoch": epoch}, trainrun.Checkpoint.from_value({"epoch": epoch}), upload="sync")
trainrun.barrier()
trainrun.set_result({"first": first, "by": os.getuid()})
PYTHON
mkdir "$work/empty" && chown 65534:65534 "$work/empty"
as_other() { (cd "$work/empty" && setpriv --reuid 65534 --regid 65534 --clear-groups env -i HOME="$work/empty" PATH="$work/venv/bin:/usr/bin:/bin" "$@"); }
said="$(as_other train-run -n 2 --max-failures 1 --name first --storage runs -- python "$work/job.py" 2>&1)" || fail "a run: $said"
expect "the results of a run" '[{"by":65534,"first":2},{"by":65534,"first":2}]' \
  "$(python3 -c 'import json, sys; print(json.dumps(json.load(open(sys.argv[1]))["results"], separators=(",", ":")))' "$work/empty/runs/first/run.json")"
for program in train-run traind; do
  [[ "$(as_other "$program" --version)" =~ ^$program\ ${version//./\\.}(\+|$) ]] || fail "$program --version"
  expect "python -m trainrun --program $program" "$(realpath "$work/venv/bin/$program")" "$(as_other python -m trainrun --program "$program")"
  [ "$(head -c 4 "$work/venv/bin/$program" | tr -d '\0')" = $'\x7fELF' ] || fail "$program is no program but a script"
done
expect "python -m trainrun --version" "$(as_other train-run --version)" "$(as_other python -m trainrun --version)"
expect "trainrun.__version__" "$version" "$(as_other python -c 'import trainrun; print(trainrun.__version__)')"
site="$(as_other python -c 'import trainrun, os; print(os.path.dirname(trainrun.__file__))')"
expect "python -m trainrun --library" "$site/lib/libtrainrun.so.0" "$(as_other python -m trainrun --library)"
expect "python -m trainrun --cmake-prefix-path" "$site" "$(as_other python -m trainrun --cmake-prefix-path)"
cat >"$work/empty/driver.py" <<'PYTHON'
import trainrun
def loop(config):
    trainrun.report({"x": config["x"], "rank": trainrun.get_context().get_world_rank()})
if __name__ == "__main__":
    trainer = trainrun.Trainer(loop, train_loop_config={"x": 5}, scaling_config={"num_workers": 2}, run_config={"name": "driven", "storage_path": "runs"})
    print("x was", trainer.fit().metrics["x"])
PYTHON
said="$(as_other env PATH=/usr/bin:/bin "$work/venv/bin/python" driver.py 2>&1)" || fail "a driver in Python: $said"
grep -qx 'x was 5' <<<"$said" || fail "a driver in Python: $said"
# The module for HTTP is found, and the system's libcurl with it.
cat >"$work/empty/serve.py" <<'PYTHON'
import http.server, os
class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        with open("asked", "wb") as file:
            file.write(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(200)
        self.end_headers()
    def log_message(self, *_):
        pass
server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
server.timeout = 120
with open("port.new", "w") as file:
    file.write(str(server.server_address[1]))
os.rename("port.new", "port")
server.handle_request()
PYTHON
as_other python serve.py &
for _ in $(seq 600); do if [ -e "$work/empty/port" ]; then break; fi; sleep 0.1; done
printf 'command: ["true"]\nscaling_config: {num_workers: 1}\nrun_config: {name: told, storage_path: runs, notify: [{on: [finished], webhook: "http://127.0.0.1:%s/"}]}\n' \
  "$(cat "$work/empty/port")" >"$work/empty/told.yaml"
said="$(as_other train-run told.yaml 2>&1)" || fail "a run that notifies: $said"
wait
grep -q '"run":"told"' "$work/empty/asked" || fail "nobody was notified: $said"
for program in unwind pmix; do
  [ -x "$work/venv/libexec/trainrun/trainrun-$program" ] || fail "trainrun-$program is not installed"
done
"$work/venv/bin/pip" uninstall -q -y trainrun
left="$(find "$work/venv" \( -name '*train-run*' -o -name '*traind*' -o -name '*trainrun*' \) | head -3)"
expect "what pip uninstall left" "" "$left"

# 3. Programs in C++ and C, where nobody has installed fmt, Boost or xxHash to develop with.
inside / <<'SCRIPT'
set -euo pipefail
fail() { printf 'wheel_test: %s\n' "$*" >&2; exit 1; }
mapfile -t gone < <(dpkg-query -W -f '${db:Status-Status} ${Package}\n' 'libboost*-dev' libfmt-dev libspdlog-dev libxxhash-dev libyaml-cpp-dev libre2-dev \
  libcli11-dev prometheus-cpp-dev libssl-dev libdw-dev libpng-dev libturbojpeg0-dev 2>/dev/null | sed -n 's/^installed //p')
dpkg --remove --force-depends "${gone[@]}" >/dev/null 2>&1 || fail "Debian's packages could not be removed"
for header in fmt boost xxhash.h png.h turbojpeg.h; do [ ! -e "/usr/include/$header" ] || fail "/usr/include/$header is still there"; done
python3 -m venv /venv
/venv/bin/pip install -q --disable-pip-version-check --no-index /wheel/*.whl || fail "pip install"
mkdir /project && cd /project
cat >CMakeLists.txt <<'CMAKE'
cmake_minimum_required(VERSION 3.25)
project(user LANGUAGES C CXX)
find_package(trainrun REQUIRED COMPONENTS sdk c)
add_executable(worker worker.cc)
target_link_libraries(worker PRIVATE trainrun::sdk)
add_executable(c_worker c_worker.c)
target_link_libraries(c_worker PRIVATE trainrun::c)
CMAKE
cat >worker.cc <<'CC'
#include <train/train.h>
int main(int argc, char** argv) {
  return train::run(argc, argv, [](const train::Config& config) {
    train::report({{"x", config.get<int>("x", 0)}}, train::Checkpoint::from_json(train::Dict{{"x", 1}}));
  });
}
CC
cat >c_worker.c <<'C'
#include <stdio.h>
#include <train/train_c.h>
int main(void) {
  int wrong = trainrun_report("{}") != 0 || trainrun_report("[]") == 0; /* an exception inside the library */
  printf("%d %s\n", trainrun_world_size(), trainrun_last_error_kind());
  return wrong;
}
C
prefix="$(/venv/bin/python -m trainrun --cmake-prefix-path)"
{ cmake -B build -DCMAKE_PREFIX_PATH="$prefix" && cmake --build build; } >log 2>&1 || fail "a project: $(cat log)"
[ "$(./build/c_worker | tail -n 1)" = "1 invalid_argument" ] || fail "the program in C: $(./build/c_worker)"
/venv/bin/train-run -n 2 --name built --storage runs --set train_loop_config.x=7 -- ./build/worker >said 2>&1 || fail "the program in C++: $(cat said)"
[ -d runs/built/checkpoints/checkpoint_000001 ] && [ "$(grep -c '"x":7' runs/built/metrics.jsonl)" = 2 ] || fail "what the program in C++ reported: $(cat said)"
# refused COMPONENT TEXT
refused() {
  sed "s/COMPONENTS sdk c/COMPONENTS sdk $1/" CMakeLists.txt >other/CMakeLists.txt
  if cmake -S other -B "other/$1" -DCMAKE_PREFIX_PATH="$prefix" >log 2>&1; then fail "a project with trainrun::$1 is configured"; fi
  tr -s ' \n' ' ' <log | grep -qF "$2" || fail "trainrun::$1 is refused without the reason: $(cat log)"
}
mkdir other
refused data "pip install 'trainrun[data]' puts it there."
refused torch "the wheel has no trainrun::torch"

# As pip install 'trainrun[data]' would.
ln -s /wheel/pyarrow "$prefix/../pyarrow"
mkdir data
cp /wheel/user_data.cc data/
cat >data/CMakeLists.txt <<'CMAKE'
cmake_minimum_required(VERSION 3.25)
project(user LANGUAGES CXX)
find_package(trainrun REQUIRED COMPONENTS data)
add_executable(worker user_data.cc)
target_link_libraries(worker PRIVATE trainrun::data)
CMAKE
{ cmake -S data -B data/build -DCMAKE_PREFIX_PATH="$prefix" && cmake --build data/build; } >log 2>&1 || fail "a project with trainrun::data: $(cat log)"
printf '%s\n' 'command: [./data/build/worker]' 'scaling_config: {num_workers: 1}' 'run_config: {name: data, storage_path: runs}' \
  'datasets: {train: {format: images, path: /wheel/pictures, size: [8, 8]}}' >job.yaml
/venv/bin/train-run job.yaml >said 2>&1 || fail "a program with trainrun::data: $(cat said)"
grep -q '"rows":2' runs/data/metrics.jsonl || fail "what the program with trainrun::data read: $(cat said)"
SCRIPT

# 4. In a system without any of the libraries.
if [ -d "$deps/vm-trixie-1" ]; then
  inside "$deps/vm-trixie-1" <<'SCRIPT'
set -euo pipefail
fail() { printf 'wheel_test: in Debian 13: %s\n' "$*" >&2; exit 1; }
mkdir /there && cd /there
cp -r /wheel/files/*.data/data/. . && cp -r /wheel/files/*.data/scripts bin && chmod -R +x bin libexec
missing="$(ldd bin/train-run bin/traind libexec/trainrun/trainrun-unwind libexec/trainrun/trainrun-pmix | grep 'not found' || true)"
[ -z "$missing" ] || fail "libraries are missing: $missing"
said="$(./bin/train-run -n 2 --storage /tmp/runs -- echo hello 2>&1)" || fail "a run: $said"
grep -q '\[0-1\] hello' <<<"$said" || fail "a run: $said"
SCRIPT
fi
echo "wheel_test: passed"
