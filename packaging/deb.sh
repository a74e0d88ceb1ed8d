#!/usr/bin/env bash
# packaging/deb.sh BUILD_FOLDER OUT_FOLDER [VERSION]: make the Debian packages of a build with the preset `deb` (make deb does
# both). VERSION replaces the project's, for tests of upgrades.
set -euo pipefail

source_folder="$(realpath "$(dirname "${BASH_SOURCE[0]}")/..")"
BUILD="$(realpath "$1")" out="$(realpath -m "$2")"
export BUILD
version="${3:-$(sed -n 's/^CMAKE_PROJECT_VERSION:.*=//p' "$BUILD/CMakeCache.txt")}"
# The same sources give the same packages.
SOURCE_DATE_EPOCH="${SOURCE_DATE_EPOCH:-$(git -C "$source_folder" log -1 --format=%ct 2>/dev/null || stat -c %Y "$source_folder/CHANGELOG.md")}"
export SOURCE_DATE_EPOCH
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT

tree="$work/trainrun-$version"
mkdir -p "$tree" "$out"
cp -r "$source_folder/packaging/debian" "$tree/debian"
maintainer="$(sed -n 's/^Maintainer: //p' "$tree/debian/control")"
printf 'trainrun (%s) bookworm; urgency=medium\n\n  * Changes: CHANGELOG.md in the sources.\n\n -- %s  %s\n' \
  "$version" "$maintainer" "$(date -u -R -d "@$SOURCE_DATE_EPOCH")" >"$tree/debian/changelog"
# train-run contains dygraphs, whose authors want their text in every copy.
sed 's/^$/./; s/^/ /' /usr/share/doc/libjs-dygraphs/copyright >>"$tree/debian/copyright"

(cd "$tree" && dpkg-buildpackage --build=binary --no-sign -d) >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
rm -f "$out"/*.deb
cp "$work"/*.deb "$out"
mapfile -t libraries < <(cd "$BUILD" && find lib sdk -type f -name 'libtrainrun*.so*')
"$source_folder/packaging/sbom.py" "$BUILD" "$out/trainrun.cdx.json" bin/train-run bin/traind bin/trainrun-unwind bin/trainrun-pmix "${libraries[@]}" >&2
ls "$out"/*.deb
