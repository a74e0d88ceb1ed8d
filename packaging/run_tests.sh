#!/usr/bin/env bash
# packaging/run_tests.sh BUILD_FOLDER [CTEST_ARGUMENT...]: run ctest, print why tests were skipped, and end with a line `N
# passed, N failed, N skipped`, in test cases. Exit code: 0 if no test failed and at least one passed, else 1.
set -euo pipefail

build="$(cd "$1" && pwd)"
shift
results="$build/test_results"
rm -rf "$results"
mkdir -p "$results"

code=0
ctest --test-dir "$build" --show-only=json-v1 "$@" >"$results/entries.json"
ctest --test-dir "$build" --output-on-failure --no-tests=error -j2 --output-junit "$results/ctest.junit" "$@" || code=$?
exec python3 "$(dirname "${BASH_SOURCE[0]}")/count_tests.py" "$results/entries.json" "$results/ctest.junit" "$code"
