#!/usr/bin/env bash
# tests/package/run_tests_test.sh SOURCE_FOLDER SAMPLE: check what packaging/run_tests.sh says of tests that pass, fail, are
# skipped, or do not run. SAMPLE is run_tests_sample.
set -euo pipefail
source="$1" sample="$2"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT

fail() { printf 'run_tests_test: %s\n' "$*" >&2; exit 1; }

# given ENTRY...: make a new build folder with these tests, each a line for ctest
given() {
  rm -rf "$work/build"
  mkdir "$work/build"
  printf '%s\n' "$@" >"$work/build/CTestTestfile.cmake"
}

# googletest NAME FILTER: print an entry as train_test() makes it
googletest() {
  echo "add_test($1 $sample --gtest_filter=$2)"
  echo "set_tests_properties($1 PROPERTIES ENVIRONMENT GTEST_OUTPUT=xml:$work/build/test_results/$1.xml)"
}

# expect CODE TEXT [CTEST_ARGUMENT...]: check the exit code of run_tests.sh, and the last lines that it prints itself
expect() {
  local code=0 wanted="$2" found lines
  lines="$(wc -l <<<"$wanted")"
  "$source/packaging/run_tests.sh" "$work/build" "${@:3}" >"$work/said" 2>&1 || code=$?
  found="$(tail -n "$lines" "$work/said")"
  if [ "$code" = "$1" ] && [ "$found" = "$wanted" ]; then return; fi
  fail "wanted $1 and
$wanted
--- found $code and
$(cat "$work/said")"
}

given "$(googletest good '*Passes*')" "$(googletest half 'Sample.Passes:*Skips*:*DISABLED*')"
expect 0 'skipped: 2 x something is missing
skipped: 1 x disabled
3 passed, 0 failed, 3 skipped'
expect 0 '2 passed, 0 failed, 0 skipped' -R good

given "$(googletest bad 'Sample.Passes:Sample.Fails')"
expect 1 '1 passed, 1 failed, 0 skipped'

given "$(googletest skips '*Skips*')"
expect 1 'failed: no test passed
skipped: 2 x something is missing
0 passed, 1 failed, 2 skipped'

given "add_test(missing $work/no_such_program)" 'add_test(there true)'
expect 1 'failed: missing did not run: Unable to find executable
1 passed, 1 failed, 0 skipped'

given "$(googletest quits 'Sample.Passes:*EndsTheProgram*')"
expect 1 'failed: quits ended before its last test case
0 passed, 1 failed, 0 skipped'

given "$(googletest leaks 'Sample.Passes:*LetsTheProgramFail*')"
expect 1 'failed: leaks failed outside its test cases
2 passed, 1 failed, 0 skipped'

given "$(googletest none '*NoSuchCase*')" 'add_test(there true)'
expect 1 'failed: none ran no test case
1 passed, 1 failed, 0 skipped'

given 'add_test(script true)' 'add_test(vm sh -c "echo vm_test: skipped: needs qemu; exit 77")' 'set_tests_properties(vm PROPERTIES SKIP_RETURN_CODE 77)'
expect 0 'skipped: 1 x needs qemu
1 passed, 0 failed, 1 skipped'

given 'add_test(script true)' 'add_test(broken false)' 'add_test(careful sh -c "exit 77")' \
      'set_tests_properties(careful PROPERTIES SKIP_RETURN_CODE 77)' 'add_test(off true)' 'set_tests_properties(off PROPERTIES DISABLED ON)'
expect 1 'skipped: 1 x careful said so
skipped: 1 x disabled
1 passed, 1 failed, 2 skipped'

given ''
expect 1 '0 passed, 1 failed, 0 skipped'
given 'add_test(script true)'
expect 1 '0 passed, 1 failed, 0 skipped' -R nothing_of_that_name
echo "run_tests_test: passed"
