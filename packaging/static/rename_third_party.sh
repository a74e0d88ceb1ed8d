#!/usr/bin/env bash
# packaging/static/rename_third_party.sh ARCHIVE LIBRARY...: in an archive that holds the objects of third parties' libraries, give
# their symbols, and those of Boost, fmt and MessagePack, names of our own. A program that links the archive may then use another
# version of them.
set -euo pipefail

archive="$1"
shift
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
# What the libraries define, except C++, whose names say which library they are of: they have the length before each identifier. No
# name of ours that users see has a third party's type in it.
nm --defined-only -g "$@" 2>/dev/null | awk 'NF == 3 && $3 !~ /^_Z/ { print $3 }' | sort -u >"$work/c"
nm "$archive" 2>/dev/null | awk 'NF >= 2 { print $NF }' | sort -u >"$work/all"
{
  comm -12 "$work/c" "$work/all" | sed 's/.*/& trainrun_&/'
  grep -E '5boost|3fmt2v9|7msgpack' "$work/all" |
    sed -E 'h; s/5boost/14trainrun_boost/g; s/3fmt2v9/12trainrun_fmt2v9/g; s/7msgpack/16trainrun_msgpack/g; x; G; s/\n/ /' || true
} >"$work/names"
[ -s "$work/names" ] || { echo "rename_third_party: $archive has no symbol of a third party" >&2; exit 1; }
objcopy --redefine-syms="$work/names" "$archive"
