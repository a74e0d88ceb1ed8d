#!/usr/bin/env bash
# tests/reach/deb_test.sh BUILD_FOLDER: check the Debian packages that `make deb` left in BUILD_FOLDER/packages: what lintian
# says; install, use and purge them in a throw-away layer above this machine's files; upgrade them under a running job, in a
# virtual machine. It skips (exit code 77) if there are none, or no way to do this.
set -euo pipefail

here="$(realpath "$(dirname "${BASH_SOURCE[0]}")")"
skip() { echo "deb_test: skipped: $*"; exit 77; }
fail() { printf 'deb_test: %s\n' "$*" >&2; exit 1; }
compgen -G "$1/packages/traind_*.deb" >/dev/null || skip "needs make deb"
[ "$(id -u)" = 0 ] || skip "needs root"
command -v lintian dpkg-buildpackage >/dev/null || skip "needs packaging/deps/install.sh deb"
build="$(realpath "$1")"
work="$(mktemp -d)"
trap 'umount -R "$work/root" 2>/dev/null || true; umount "$work" 2>/dev/null || true; rm -rf "$work"' EXIT

if [ "${2:-}" != inside ]; then
  version="$(sed -n 's/^CMAKE_PROJECT_VERSION:.*=//p' "$build/CMakeCache.txt")"
  mkdir -p "$work/packages/old"
  cp "$build"/packages/*.deb "$work/packages/old"
  # A newer package with the same programs.
  mkdir "$work/packages/new"
  for package in train-run traind; do
    dpkg-deb -R "$work/packages/old/${package}_"*.deb "$work/$package"
    sed -i "s/^Version: .*/Version: $version+1/; s/(= $version)/(= $version+1)/" "$work/$package/DEBIAN/control"
    dpkg-deb --root-owner-group -Zgzip -z1 -b "$work/$package" "$work/packages/new/${package}_$version+1.deb" >/dev/null
  done
  expected="libtrainrun-dev libtrainrun0 libtrainrun0-dbgsym train-run train-run-dbgsym traind traind-dbgsym "
  found="$(cd "$work/packages/old" && for package in *.deb; do dpkg-deb -f "$package" Package; done | sort | tr '\n' ' ')"
  [ "$found" = "$expected" ] || fail "the packages are $found, not $expected"
  # The bill of materials has what is compiled in, and all that the packages depend on.
  python3 - "$build/packages/trainrun.cdx.json" "$work"/packages/old/train{-run,d}_*.deb <<'EOF' || fail "the bill of materials"
import json, re, subprocess, sys
bill = {part["name"]: part["properties"][0]["value"] for part in json.load(open(sys.argv[1]))["components"]}
wanted = {"libcli11-dev": "headers", "libboost1.81-dev": "headers", "msgpack": "headers", "libjs-dygraphs": "embedded"}
for package in sys.argv[2:]:
    depends = subprocess.run(["dpkg-deb", "-f", package, "Depends"], capture_output=True, text=True, check=True).stdout
    names = re.findall(r"(?:^|, )([a-z0-9.+-]+)", depends)
    # spdlog provides libspdlog1.10-fmt9; traind and systemd are no libraries.
    wanted |= {name.removesuffix("-fmt9"): "dynamic" for name in names if name.startswith("lib")}
wrong = {name: bill.get(name) for name, how in wanted.items() if bill.get(name) != how}
sys.exit(f"not in the bill of materials as expected: {wrong}" if wrong else 0)
EOF

  said="$(lintian --allow-root --tag-display-limit 0 "$work"/packages/old/*.deb)" || fail "lintian: $said"
  ! grep -E "^[EW]:" <<<"$said" || fail "lintian, see above"

  unshare --mount --pid --fork --propagation private "$0" "$build" inside "$work/packages/old"
  rm -f "$work"/packages/old/{lib*,*-dbgsym*}.deb
  "$here/systemd_test.sh" "$build" bookworm 0 "$work/packages"
  echo "deb_test: passed"
  exit 0
fi

# Inside: a layer in memory above this machine's files.
packages="$3"
mount -t tmpfs layer "$work"
mkdir "$work"/{root,upper,scratch}
mount -t overlay -o "lowerdir=/,upperdir=$work/upper,workdir=$work/scratch" root "$work/root" 2>/dev/null || skip "needs overlayfs"
for folder in dev sys; do mount --rbind "/$folder" "$work/root/$folder"; done
for folder in run tmp; do mount -t tmpfs "$folder" "$work/root/$folder"; done   # without systemd's folders
mount -t proc proc "$work/root/proc"
mkdir "$work/root/packages"
cp "$packages"/*.deb "$work/root/packages"
cat >"$work/root/check.sh" <<'EOF'
set -euo pipefail
fail() { printf 'deb_test: %s\n' "$*" >&2; exit 1; }
export HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive
unset TRAINRUN_DEPS_DIR
cd /root
dpkg -i /packages/*.deb >/packages/log 2>&1 || fail "dpkg: $(cat /packages/log)"
id trainrun >/dev/null || fail "there is no user trainrun"
dpkg -S /lib/systemd/system/traind.service /lib/systemd/system/traind-drain.service | cut -d: -f1 | sort -u >out
[ "$(cat out)" = traind ] || fail "the services belong to $(cat out)"
[ -d /etc/traind ] || fail "there is no /etc/traind"

printf 'command: [echo, hello]\nscaling_config: {num_workers: 2}\nrun_config: {storage_path: /root/runs}\n' >job.yaml
train-run job.yaml >out 2>&1 || fail "a run: $(cat out)"
grep -q '\[0-1\] hello' out || fail "a run: $(cat out)"
echo 'datasets: {numbers: {path: numbers.csv}}' >>job.yaml
printf 'x\n1\n' >numbers.csv
train-run data inspect job.yaml >out 2>&1 && fail "train-run data without Arrow"
grep -q train-data out || fail "train-run data without Arrow says: $(cat out)"
man -w train-run traind >/dev/null || fail "man pages"
for file in bash-completion/completions/train-run zsh/vendor-completions/_train-run fish/vendor_completions.d/train-run.fish; do
  [ -e "/usr/share/$file" ] || fail "$file is missing"
done
# -dbgsym: functions have lines.
id="$(readelf -n /usr/sbin/traind | sed -n 's/.*Build ID: //p')"
readelf -S "/usr/lib/debug/.build-id/${id:0:2}/${id:2}.debug" 2>/dev/null | grep -q debug_line || fail "traind-dbgsym has no lines"

mkdir project && cd project
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
int main(int argc, char** argv) { return train::run(argc, argv, [](const train::Config&) { train::report({{"x", 1}}); }); }
CC
printf '#include <stdio.h>\n#include <train/train_c.h>\nint main(void) { int failed = trainrun_start(); printf("%%d\\n", trainrun_world_size()); return failed; }\n' >c_worker.c
{ cmake -B build . && cmake --build build; } >log 2>&1 || fail "a project: $(cat log)"
ldd build/c_worker | grep -q 'libtrainrun.so.0 => /' || fail "a C program does not load libtrainrun.so.0"
./build/c_worker >out && ./build/worker >out 2>&1 || fail "programs of the project: $(cat out)"

cd /
dpkg --purge train-run traind libtrainrun-dev libtrainrun0 train-run-dbgsym traind-dbgsym libtrainrun0-dbgsym >/packages/log 2>&1 ||
  fail "purge: $(cat /packages/log)"
left="$(find /usr /etc /var/lib -xdev \( -name 'traind*' -o -name 'train-run*' -o -name '*libtrainrun*' \) ! -path '*/share/doc/*' ! -path /var/lib/dpkg/\* 2>/dev/null |
  grep -v -e '/usr/local/' -e deb-systemd-helper || true)"
[ -z "$left" ] || fail "the purge left $left"
echo "deb_test: installed, used and purged"
EOF
chroot "$work/root" bash /check.sh
