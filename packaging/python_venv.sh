#!/usr/bin/env bash
# packaging/python_venv.sh BUILD_FOLDER VENV: make a Python environment that has the package trainrun of the sources, over the
# libraries of a build, and its programs (make python). All are links, so that it stays as new as they are. An environment that is
# there already gets them, too; what else is in it stays.
set -euo pipefail

source_folder="$(realpath "$(dirname "${BASH_SOURCE[0]}")/..")"
build="$(realpath "$1")" venv="$(realpath -m "$2")"
libdir="$(sed -n 's/^CMAKE_INSTALL_LIBDIR:.*=//p' "$build/CMakeCache.txt")"

[ -x "$venv/bin/python" ] || "${PYTHON:-python3}" -m venv "$venv"
package="$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/trainrun"
rm -rf "$package"
mkdir -p "$package/lib"
ln -s "$source_folder"/sdk/python/trainrun/{*.py,py.typed} "$package/"
ln -s "$build/$libdir"/libtrainrun*.so* "$package/lib/"    # with the modules that libtrainrun_data.so loads
ln -s "$build/$libdir/trainrun" "$package/lib/trainrun"   # Arrow, where it looks for it
ln -sf "$build"/bin/{train-run,traind} "$venv/bin/"
printf '%s\n' "$venv/bin/python"
