#!/usr/bin/env bash
# tests/package/version_test.sh SOURCE_FOLDER: check that the version is written only in project() of CMakeLists.txt and in
# CHANGELOG.md, and that all else takes it from there. Examples of find_package() must name the current one.
set -euo pipefail
cd "$1"
failed=0

complain() { printf 'version_test: %s\n' "$*" >&2; failed=1; }

version="$(sed -nE 's/^project\(trainrun VERSION ([0-9]+\.[0-9]+\.[0-9]+) .*/\1/p' CMakeLists.txt)"
[ -n "$version" ] || { complain "CMakeLists.txt has no project(trainrun VERSION X.Y.Z)"; exit 1; }

# places PATTERN: print FILE:LINE:MATCH for the tree's texts, except lists of other packages, which have their own versions
places() {
  grep -rIPno --exclude-dir='build*' --exclude-dir=.git --exclude-dir=.cache --exclude='*-venv.txt' --exclude=CHANGELOG.md -- "$1" . || true
}

found="$(places "(?<![\d.])\Q$version\E(?![\d]|\.\d)" | sed 's|^\./||')"
line="$(grep -n '^project(trainrun' CMakeLists.txt | cut -d: -f1)"
[ "$found" = "CMakeLists.txt:$line:$version" ] ||
  complain "$version belongs into CMakeLists.txt only, from where PROJECT_VERSION goes on; it is also in
$(grep -v "^CMakeLists.txt:$line:" <<<"$found")"

others="$(places 'find_package\(trainrun \K[0-9][0-9.]*' | grep -v ":${version%.*}$" || true)"
[ -z "$others" ] || complain "find_package(trainrun) asks for another version than ${version%.*}:
$others"

grep -qF "## [$version]" CHANGELOG.md || complain "CHANGELOG.md has no heading [$version]"
[ "$failed" = 0 ] && echo "version_test: $version in one place"
