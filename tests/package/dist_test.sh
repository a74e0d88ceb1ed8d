#!/usr/bin/env bash
# tests/package/dist_test.sh SOURCE_FOLDER: check that `make dist` gives the same bytes twice, at another time, with another umask
# and from another clone, and that it holds the commit's files below one folder.
set -euo pipefail
source_folder="$(realpath "$1")"
fail() { printf 'dist_test: %s\n' "$*" >&2; exit 1; }
git -C "$source_folder" rev-parse HEAD >/dev/null 2>&1 || { echo "dist_test: skipped: needs a git repository"; exit 77; }
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT

"$source_folder/packaging/dist.sh" "$work/one" >/dev/null
git clone -q --no-hardlinks "$source_folder" "$work/clone" 2>"$work/log" || fail "$(cat "$work/log")"
git -C "$work/clone" checkout -q --detach "$(git -C "$source_folder" rev-parse HEAD)"
echo "not committed" >"$work/clone/more"
(umask 077 && cd / && LC_ALL=C.UTF-8 TZ=Pacific/Auckland "$source_folder/packaging/dist.sh" "$work/two" >/dev/null)
cp "$source_folder/packaging/dist.sh" "$work/clone/packaging/dist.sh"
"$work/clone/packaging/dist.sh" "$work/three" >/dev/null
archive="$(basename "$work"/one/*.tar.gz)"
for other in two three; do cmp "$work/one/$archive" "$work/$other/$archive" || fail "the archive differs"; done
(cd "$work/one" && sha256sum --quiet -c "$archive.sha256") || fail "the sum is not the archive's"
version="$(git -C "$source_folder" show HEAD:CMakeLists.txt | sed -nE 's/^project\(trainrun VERSION ([0-9.]+) .*/\1/p')"
[ "$archive" = "trainrun-$version.tar.gz" ] || fail "it is called $archive"
diff <(tar tzf "$work/one/$archive" | grep -v '/$' | LC_ALL=C sort) <(git -C "$source_folder" ls-tree -r --name-only HEAD | sed "s|^|trainrun-$version/|" | LC_ALL=C sort) >"$work/log" ||
  fail "its files are not those of the commit: $(head -5 "$work/log")"
echo "dist_test: passed"
