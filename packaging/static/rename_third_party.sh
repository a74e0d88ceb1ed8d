#!/usr/bin/env bash
# packaging/static/rename_third_party.sh ARCHIVE: give the symbols of Boost, fmt, MessagePack and xxHash in an archive names of our
# own. A program that links the archive may then use another version of them.
set -euo pipefail

archive="$1"
names="$(mktemp)"
trap 'rm -f "$names"' EXIT
# Mangled names have the length before each identifier. No name of ours that users see has a third party's type in it.
nm "$archive" 2>/dev/null | awk '{ print $NF }' | grep -E '5boost|3fmt2v9|7msgpack|^XXH' | sort -u |
  sed -E 'h; s/5boost/14trainrun_boost/g; s/3fmt2v9/12trainrun_fmt2v9/g; s/7msgpack/16trainrun_msgpack/g; s/^XXH/trainrun_XXH/; x; G; s/\n/ /' >"$names"
[ -s "$names" ] || { echo "rename_third_party: $archive has no symbol of a third party" >&2; exit 1; }
objcopy --redefine-syms="$names" "$archive"
