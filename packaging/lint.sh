#!/usr/bin/env bash
# packaging/lint.sh: run clang-format on all C++ and JavaScript files, shellcheck on all scripts, and clang-tidy on what is compiled.
# LINT_SINCE=REVISION: check only files that differ from it, and new ones that git does not track yet.
# LINT_FAST=1: skip clang-tidy (packaging/precommit.py).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# files PATTERN...: list tracked files, or those that LINT_SINCE selects, without deleted ones
files() {
  if [ -z "${LINT_SINCE:-}" ]; then git ls-files -- "$@"; return; fi
  git diff --name-only --diff-filter=d "$LINT_SINCE" -- "$@" &&
  git ls-files --others --exclude-standard -- "$@"
}
mapfile -t formatted < <(files '*.h' '*.cc' '*.js'); wait "$!"   # fails if git did
mapfile -t sources < <(files '*.cc'); wait "$!"
mapfile -t scripts < <(files '*.sh' .ci/run); wait "$!"
if [ -z "${LINT_SINCE:-}" ] && [ $((${#formatted[@]} + ${#scripts[@]})) = 0 ]; then echo "lint: git lists no file here" >&2; exit 1; fi
failed=0

if [ ${#formatted[@]} -gt 0 ]; then clang-format --dry-run -Werror "${formatted[@]}" || failed=1; fi
if [ ${#scripts[@]} -gt 0 ]; then shellcheck "${scripts[@]}" || failed=1; fi

if [ -z "${LINT_FAST:-}" ]; then
  # clang cannot read GCC's precompiled headers, so configure without them; nothing is built in this folder
  mkdir -p build-lint
  cmake -S . -B build-lint -G Ninja -DCMAKE_EXPORT_COMPILE_COMMANDS=ON -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON >build-lint/configure.log 2>&1 ||
    { cat build-lint/configure.log; exit 1; }
  if [ ${#sources[@]} -gt 0 ]; then packaging/analyse.py build-lint "${sources[@]}" || failed=1; fi
fi
[ "$failed" = 0 ] && echo "lint: ${#formatted[@]} C++ and JavaScript files, ${#scripts[@]} scripts: clean"
exit "$failed"
