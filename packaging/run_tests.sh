#!/usr/bin/env bash
# packaging/run_tests.sh BUILD_FOLDER [CTEST_ARGUMENT...]: run ctest, and close with a line `N passed, N failed`.
# Tests that need a GPU run only where one is. Exit code: 0 when no test failed and at least one ran, else 1.
set -euo pipefail

build="$1"
shift
results="$(cd "$build" && pwd)/test_results.xml"
rm -f "$results"
without=()
[ -e /dev/nvidiactl ] || without=(-LE '^gpu$')

ctest --test-dir "$build" --output-on-failure --no-tests=error -j2 --output-junit "$results" "${without[@]}" "$@" || true

# <testsuite tests="12" failures="1" disabled="0" skipped="0" …>
count() { sed -n "/<testsuite/,/>/s/.*[[:space:]]$1=\"\([0-9]*\)\".*/\1/p" "$results" 2>/dev/null | head -1; }
tests="$(count tests)" failures="$(count failures)" disabled="$(count disabled)" skipped="$(count skipped)"
failed="${failures:-0}"
passed=$((${tests:-0} - failed - ${disabled:-0} - ${skipped:-0}))
if [ "$passed" = 0 ] && [ "$failed" = 0 ]; then failed=1; fi   # ctest itself failed
printf '%s passed, %s failed\n' "$passed" "$failed"
[ "$failed" = 0 ]
