#!/usr/bin/env bash
# tests/package/ci_test.sh SOURCE_FOLDER: check which part .ci/run adds to the tests, and how its end affects the result. The
# test replaces make and date by scripts that it controls.
set -euo pipefail
source="$1"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT

fail() { printf 'ci_test: %s\n' "$*" >&2; exit 1; }

mkdir -p "$work/tree/.ci" "$work/bin"
cp "$source/.ci/run" "$work/tree/.ci/run"
cat >"$work/bin/make" <<'END'
#!/usr/bin/env bash
echo "$1" >>"$CALLS"
if [ "$1" = test ]; then eval "$SUITE"; echo '7 passed, 0 failed, 0 skipped'; else eval "$PART"; fi
END
cat >"$work/bin/date" <<'END'
#!/bin/sh
echo "$DAY"
END
chmod +x "$work/bin/make" "$work/bin/date"

# expect CODE CALLS SAID [VARIABLE=VALUE...]: check the exit code, the calls, and what it says of the part
expect() {
  local code=0
  : >"$work/calls"
  env -u CI_PART PATH="$work/bin:$PATH" CALLS="$work/calls" DAY=1 SUITE=: PART=: "${@:4}" "$work/tree/.ci/run" >"$work/said" 2>&1 || code=$?
  if [ "$code" = "$1" ] && [ "$(paste -sd ' ' "$work/calls")" = "$2" ] && grep -qF -- "$3" "$work/said"; then return; fi
  fail "wanted $1, [$2] and '$3' with ${*:4}; found $code, [$(paste -sd ' ' "$work/calls")] and
$(cat "$work/said")"
}

# one part a day
parts=(lint asan test-hdfs tsan lint asan test-mlflow)
for day in 1 2 3 4 5 6 7; do
  part="${parts[$((day - 1))]}"
  expect 0 "test $part" "ci: the part $part: passed" DAY="$day"
  [ "$(tail -n 1 "$work/said")" = '7 passed, 0 failed, 0 skipped' ] || fail "the last line is $(tail -n 1 "$work/said")"
done

expect 0 'test tsan' 'ci: the part tsan: passed' CI_PART=tsan
expect 0 'test' 'none was asked for' CI_PART=none
expect 2 '' 'not lint, asan, tsan, test-hdfs, test-mlflow or none' CI_PART=fuzz
expect 3 'test' 'ci: make test ended before its tests did' SUITE='exit 3'
expect 2 'test' '' SUITE='echo "6 passed, 1 failed, 0 skipped"; echo "make: *** [test] Error 1"; exit 2'
[ "$(tail -n 1 "$work/said")" = '6 passed, 1 failed, 0 skipped' ] || fail "the last line is $(tail -n 1 "$work/said")"
expect 1 'test asan' 'ci: the part asan: failed: make asan ended with 2' CI_PART=asan PART='exit 2'
expect 0 'test' 'ci: the part lint: not begun' CI_PART=lint CI_SUITE_S_MAX=0 SUITE='sleep 1.1'
expect 0 'test asan' 'not finished by minute' CI_PART=asan CI_END_S=1 PART='sleep 20'
# no time is left when the part begins (timeout takes a limit of 0 as none)
expect 0 'test asan' 'not finished by minute' CI_PART=asan CI_END_S=1 SUITE='sleep 1.1' PART='sleep 20'
expect 1 'test asan' 'failed before its time was over' CI_PART=asan CI_END_S=1 PART='echo "1/2 Test #1: lib_net_test ...***Failed 0.1 sec"; sleep 20'
expect 1 'test lint' 'failed before its time was over' CI_PART=lint CI_END_S=1 PART='echo "/tree/a.cc:1:2: error: unused [misc]"; sleep 20'
echo "ci_test: passed"
