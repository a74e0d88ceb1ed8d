#!/usr/bin/env bash
# packaging/compile.sh BUILD_FOLDER TARGET...: run ninja, with its progress on one line, or in a log with a line per tenth. It prints
# nothing if there is nothing to do.
set -euo pipefail

build="$1"
shift
if ninja -C "$build" -n "$@" | grep -q 'no work to do'; then exit 0; fi
export NINJA_STATUS='[%f of %t steps, %e s] '
if [ -t 1 ]; then exec ninja -C "$build" "$@" 2>&1; fi
ninja -C "$build" "$@" 2>&1 | awk '
  /^ninja: Entering directory/ { next }
  match($0, /^\[[0-9]+ of [0-9]+ steps, [0-9.]+ s\] /) {
    split(substr($0, 2, RLENGTH), words, " ")
    tenth = int(10 * words[1] / words[3])
    if (tenth > said) { said = tenth; print substr($0, 1, RLENGTH - 1); fflush() }
    next
  }
  { print; fflush() }'
