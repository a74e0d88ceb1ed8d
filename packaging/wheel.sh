#!/usr/bin/env bash
# packaging/wheel.sh BUILD_FOLDER OUT_FOLDER: make the wheel of a build with the preset `wheel` (make wheel does both). The same
# build gives the same bytes.
#
#   trainrun/                    sdk/python/trainrun; lib/, include/ and lib/cmake/ are C's and C++'s
#   trainrun-V.data/scripts      train-run, traind: pip puts them into the environment's bin/, as they are
#   trainrun-V.data/data         the rest of the programs, as cmake --install has it: libexec/, lib/trainrun/, share/
#   trainrun-V.dist-info         with the bill of materials, and the licences of all that is compiled in
set -euo pipefail

source_folder="$(realpath "$(dirname "${BASH_SOURCE[0]}")/..")"
build="$(realpath "$1")" out="$(realpath -m "$2")"
deps="$(sed -n 's/^TRAINRUN_DEPS_DIR:.*=//p' "$build/CMakeCache.txt")"
version="$(sed -n 's/^CMAKE_PROJECT_VERSION:.*=//p' "$build/CMakeCache.txt")"
SOURCE_DATE_EPOCH="${SOURCE_DATE_EPOCH:-$(git -C "$source_folder" log -1 --format=%ct 2>/dev/null || stat -c %Y "$source_folder/CHANGELOG.md")}"
export SOURCE_DATE_EPOCH
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
umask 022

installed="$work/installed" tree="$work/tree"
data="$tree/trainrun-$version.data" info="$tree/trainrun-$version.dist-info"
cmake --install "$build" --prefix "$installed" --component Unspecified --strip >"$work/log" || { cat "$work/log"; exit 1; }
mkdir -p "$tree/trainrun/lib" "$data/data/lib" "$data/data/share" "$info/licenses" "$info/sboms"
cp "$source_folder"/sdk/python/trainrun/{*.py,py.typed} "$tree/trainrun/"
mv "$installed/include" "$tree/trainrun/include"
mv "$installed"/lib/{cmake,libtrainrun_sdk.a,libtrainrun_data.a} "$tree/trainrun/lib/"
soname="$(readelf -d "$installed/lib/libtrainrun.so" | sed -n 's/.*(SONAME).*\[\(.*\)\]/\1/p')"
cp -L "$installed/lib/$soname" "$tree/trainrun/lib/"   # a wheel has no links
mv "$installed/bin" "$data/scripts"
mv "$installed/libexec" "$data/data/libexec"
mv "$installed/lib/trainrun" "$data/data/lib/"
# Without the services of systemd, which name an absolute path.
mv "$installed"/share/{man,trainrun,bash-completion,zsh,fish} "$data/data/share/"

for file in METADATA WHEEL; do sed "s/@VERSION@/$version/" "$source_folder/packaging/wheel/$file.in" >"$info/$file"; done
cp "$source_folder/LICENSE" "$info/licenses/"
"$source_folder/packaging/sbom.py" "$build" "$info/sboms/trainrun.cdx.json" bin/train-run bin/traind bin/trainrun-unwind bin/trainrun-pmix \
  lib/libtrainrun.so lib/libtrainrun_http.so packaging/libtrainrun_sdk.a packaging/libtrainrun_data.a >&2
# The licence of each third party of which the wheel has a part: those of Debian by the names of their sources.
python3 - "$info/sboms/trainrun.cdx.json" <<'PYTHON' |
import json, re, sys
for part in json.load(open(sys.argv[1]))["components"]:
    if part["properties"][0]["value"] != "dynamic":
        source = re.search("upstream=(.*)", part["purl"])
        print(part["name"], part["version"], source[1] if source else part["name"])
PYTHON
  while read -r name number source; do
    for text in "/usr/share/doc/$name/copyright" "$deps/$name-$number"/LICENSE{,.rst} "$deps/$name-$number"/{usr/share/doc/*/copyright,*.dist-info/licenses/LICENSE*}; do
      if [ -e "$text" ]; then cp -L "$text" "$info/licenses/$source"; continue 2; fi
    done
    echo "wheel.sh: no licence of $name $number was found" >&2
    exit 1
  done

chmod -R u=rwX,go=rX "$tree"
mkdir -p "$out"
rm -f "$out"/trainrun-*.whl
"$deps/wheel-venv-1/bin/python" -m wheel pack --dest-dir "$out" "$tree" >&2
ls "$out"/*.whl
