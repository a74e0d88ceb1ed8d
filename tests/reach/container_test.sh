#!/usr/bin/env bash
# tests/reach/container_test.sh BUILD_FOLDER: copy what packaging/container/Containerfile collects from the Debian packages that
# `make deb` left in BUILD_FOLDER/packages into a Debian 13, which has none of the libraries, and run a job there.
set -euo pipefail

source_folder="$(realpath "$(dirname "${BASH_SOURCE[0]}")/../..")"
skip() { echo "container_test: skipped: $*"; exit 77; }
fail() { printf 'container_test: %s\n' "$*" >&2; exit 1; }
compgen -G "$1/packages/traind_*.deb" >/dev/null || skip "needs make deb"
[ "$(id -u)" = 0 ] || skip "needs root"
base="${TRAINRUN_DEPS_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/trainrun/deps}/vm-trixie-1"
[ -d "$base" ] || skip "needs packaging/deps/install.sh reach"
build="$(realpath "$1")"

if [ "${2:-}" != inside ]; then exec unshare --mount --pid --fork --propagation private "$0" "$build" inside; fi
work="$(mktemp -d)"
mount -t tmpfs layer "$work"   # it goes with the namespace
mkdir -p "$work"/{installed,collected,root,upper,scratch}
for package in train-run traind; do dpkg-deb -x "$build/packages/${package}_"*.deb "$work/installed"; done
"$source_folder/packaging/container/collect.sh" "$work/installed" "$work/collected"

mount -t overlay -o "lowerdir=$base,upperdir=$work/upper,workdir=$work/scratch" root "$work/root" 2>/dev/null || skip "needs overlayfs"
cp -a "$work/collected/." "$work/root/"
mount -t proc proc "$work/root/proc"
mount -t tmpfs tmp "$work/root/tmp"
printf 'command: [echo, hello]\nscaling_config: {num_workers: 2}\nrun_config: {storage_path: /tmp/runs}\n' >"$work/root/tmp/job.yaml"
missing="$(chroot "$work/root" ldd /usr/bin/train-run /usr/sbin/traind /usr/libexec/trainrun/trainrun-unwind /usr/libexec/trainrun/trainrun-pmix | grep 'not found' || true)"
[ -z "$missing" ] || fail "libraries are missing: $missing"
said="$(chroot "$work/root" env -i HOME=/tmp PATH=/usr/bin:/bin train-run /tmp/job.yaml 2>&1)" || fail "a run: $said"
grep -q '\[0-1\] hello' <<<"$said" || fail "a run: $said"
echo "container_test: passed, with $(du -sm "$work/collected" | cut -f1) MB"
