#!/usr/bin/env python3
"""Check a change quickly before it is committed or sent: packaging/precommit.py [BASE]  (`make precommit BASE=…` calls it)

It checks the files that differ from the point where this branch left BASE: clang-format and shellcheck (packaging/lint.sh
without clang-tidy), and the width of new lines in documents. It also checks the subjects of the commits since then. BASE
defaults to origin/main, else main.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DOCUMENT_COLUMNS_MAX = 120
SUBJECT_COLUMNS_MAX = 72


def git(*arguments: str, check: bool = True) -> str:
    result = subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, text=True)
    if check and result.returncode != 0:
        sys.exit(f"precommit: git {' '.join(arguments)}: {result.stderr.strip()}")
    return result.stdout.strip() if result.returncode == 0 else ""


def base_of(arguments: list[str]) -> str:
    if arguments:
        return git("merge-base", arguments[0], "HEAD")
    for name in ("origin/main", "main"):
        if git("rev-parse", "--verify", "--quiet", name, check=False):
            return git("merge-base", name, "HEAD")
    return git("rev-parse", "HEAD")


def wide_lines(text: str) -> dict[int, str]:
    """Return the lines of a document that are too wide, by number. Tables and code may be wide."""
    wide, fenced = {}, False
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif len(line) > DOCUMENT_COLUMNS_MAX and not fenced and not line.startswith(("|", "    ")):
            wide[number] = line
    return wide


def new_lines(base: str, document: str) -> set[int]:
    """Return the numbers of the document's lines that are new since BASE."""
    found: set[int] = set()
    for start, count in re.findall(r"^@@ -\S+ \+(\d+)(?:,(\d+))? @@", git("diff", "-U0", base, "--", document), re.MULTILINE):
        found.update(range(int(start), int(start) + int(count or 1)))
    return found


def document_mistakes(base: str) -> list[str]:
    changed = git("diff", "--name-only", "--diff-filter=d", base, "--", "*.md").splitlines()
    unknown = git("ls-files", "--others", "--exclude-standard", "--", "*.md").splitlines()
    mistakes = []
    for document in changed + unknown:
        wide = wide_lines((ROOT / document).read_text())
        if document in changed:
            wide = {number: wide[number] for number in sorted(wide.keys() & new_lines(base, document))}
        mistakes += [f"{document}:{n}: {len(line)} columns, more than {DOCUMENT_COLUMNS_MAX}" for n, line in wide.items()]
    return mistakes


def subject_mistake(subject: str) -> str:
    if len(subject) > SUBJECT_COLUMNS_MAX:
        return f"{len(subject)} columns, more than {SUBJECT_COLUMNS_MAX}"
    if not re.match(r"[^\s:][^:]*: \S", subject):
        return "not `area: what changes`"
    return "ends with a full stop" if subject.endswith(".") else ""


def commit_mistakes(base: str) -> tuple[int, list[str]]:
    commits = [line.split(" ", 1) for line in git("log", "--no-merges", "--format=%h %s", f"{base}..HEAD").splitlines()]
    found = [(commit, subject_mistake(subject), subject) for commit, subject in commits]
    return len(commits), [f"commit {commit}: {mistake}: {subject}" for commit, mistake, subject in found if mistake]


def main() -> int:
    base = base_of(sys.argv[1:])
    environment = {**os.environ, "LINT_SINCE": base, "LINT_FAST": "1"}
    lint = subprocess.run([ROOT / "packaging/lint.sh"], env=environment)
    commits, mistakes = commit_mistakes(base)
    mistakes = document_mistakes(base) + mistakes
    for mistake in mistakes:
        print(mistake)
    if lint.returncode != 0 or mistakes:
        return 1
    print(f"precommit: what changed since {base[:8]}, and {commits} commits: clean")
    return 0


if __name__ == "__main__":
    sys.exit(main())
