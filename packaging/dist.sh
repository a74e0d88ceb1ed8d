#!/usr/bin/env bash
# packaging/dist.sh OUT_FOLDER: make trainrun-VERSION.tar.gz of the commit (make dist). The same commit gives the same bytes,
# wherever and whenever: names sorted, owners and times fixed, no name or time in gzip's header. Changes that are not committed
# are not in it.
set -euo pipefail

source_folder="$(realpath "$(dirname "${BASH_SOURCE[0]}")/..")"
out="$(realpath -m "$1")"
version="$(git -C "$source_folder" show HEAD:CMakeLists.txt | sed -nE 's/^project\(trainrun VERSION ([0-9.]+) .*/\1/p')"
name="trainrun-$version"
mkdir -p "$out"
LC_ALL=C TZ=UTC git -C "$source_folder" -c tar.umask=0022 -c core.autocrlf=false archive --format=tar --prefix="$name/" HEAD |
  gzip -9n >"$out/$name.tar.gz.new"
mv "$out/$name.tar.gz.new" "$out/$name.tar.gz"
(cd "$out" && sha256sum "$name.tar.gz" | tee "$name.tar.gz.sha256")
