#!/usr/bin/env bash
# tests/package/precommit_test.sh SOURCE_FOLDER: check what packaging/precommit.py finds in a change, in a new repository, and
# that packaging/lint.sh does not pass where git lists nothing.
set -euo pipefail
source="$1"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT

fail() { printf 'precommit_test: %s\n' "$*" >&2; exit 1; }

export GIT_CONFIG_GLOBAL=/dev/null GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@example GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@example
mkdir "$work/tree"
cd "$work/tree"
git init -q -b main
mkdir packaging
cp "$source/packaging/precommit.py" packaging/
# shellcheck disable=SC2016 # it expands where it runs
printf '#!/bin/sh\n[ "$LINT_FAST" = 1 ] && [ -n "$LINT_SINCE" ] && ! [ -e ugly.cc ]\n' >packaging/lint.sh
chmod +x packaging/lint.sh

wide="$(printf 'wide%.0s ' {1..30})"   # 150 columns
printf '%s\nold\n' "$wide" >old.md
commit() { git add -A && git commit -qm "$1"; }
commit 'no area in an old commit'

# expect CODE LAST_LINES
expect() {
  local code=0
  packaging/precommit.py >"$work/said" 2>&1 || code=$?
  if [ "$code" = "$1" ] && [ "$(sed -E 's/ [0-9a-f]{7,}/ HASH/' "$work/said")" = "$2" ]; then return; fi
  fail "wanted $1 and
$2
--- found $code and
$(cat "$work/said")"
}

expect 0 'precommit: what changed since HASH, and 0 commits: clean'

git checkout -q -b change
printf '%s\nnew\n' "$wide" >old.md
printf '| %s |\n\n    %s\n\n~~~\n%s\n~~~\n' "$wide" "$wide" "$wide" | tr '~' '\`' >tables.md
commit 'docs: lines that are not new, tables and code'
expect 0 'precommit: what changed since HASH, and 1 commits: clean'

printf '%s\nnew\n%s\n' "$wide" "$wide" >old.md
echo "$wide" >unknown.md
expect 1 'old.md:3: 150 columns, more than 120
unknown.md:1: 150 columns, more than 120'
rm unknown.md
git checkout -q old.md

touch ugly.cc
expect 1 ''
rm ugly.cc

for subject in 'Fix it' 'docs: ends with a full stop.' "docs: $(printf 'x%.0s' {1..67})" "docs: $(printf 'x%.0s' {1..66})"; do
  git commit -q --allow-empty -m "$subject"
done
expect 1 "commit HASH: 73 columns, more than 72: docs: $(printf 'x%.0s' {1..67})
commit HASH: ends with a full stop: docs: ends with a full stop.
commit HASH: not \`area: what changes\`: Fix it"

# lint CODE TEXT [VARIABLE=VALUE...]: check how the real lint.sh ends before it needs a tool, and what it says
lint() {
  local code=0
  env -u LINT_SINCE LINT_FAST=1 "${@:3}" packaging/lint.sh >"$work/said" 2>&1 || code=$?
  if [ "$code" = "$1" ] && grep -qF -- "$2" "$work/said"; then return; fi
  fail "wanted $1 and '$2' of lint.sh; found $code and $(cat "$work/said")"
}
mkdir -p "$work/new/packaging"
cd "$work/new"
cp "$source/packaging/lint.sh" packaging/
git init -q -b main
lint 1 'lint: git lists no file here'
lint 128 "fatal: bad revision 'no_such_revision'" LINT_SINCE=no_such_revision
echo "precommit_test: passed"
