#!/usr/bin/env python3
"""packaging/analyse.py BUILD_FOLDER SOURCE...: run clang-tidy on sources of this tree (packaging/lint.sh calls it)

clang-tidy spends nearly all of its time on the headers of Boost, Arrow and Torch. So we analyse sources of one folder
with the same compiler flags together, as one file that includes them all. If clang cannot compile them together (two have
a name in common), we halve the group until it can. A source that it cannot compile alone is an error.

BUILD_FOLDER/analysed.json remembers clean sources with a hash of the source, its headers in this tree, its flags and
.clang-tidy. We do not analyse these again.

The last line says how much was analysed. Sources that the build does not compile (CUDA, a user's project) are left out,
but it is an error if it compiles no source of this tree. Exit code: 0 if nothing was found.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import groupby
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BATCH_SOURCES_MAX = 10
INCLUDE = re.compile(r'^#include (?:"|<(?=train/))(.+?)[">]', re.MULTILINE)
START = re.compile(r"^(?=(/\S+?):\d+:\d+: (?:error|warning): )", re.MULTILINE)


@cache
def headers_below(path: Path) -> frozenset[Path]:
    """Return the files of this tree that a file includes, and the file itself."""
    found, rest = {path}, [path]
    while rest:
        file = rest.pop()
        for name in INCLUDE.findall(file.read_text()):
            for candidate in (ROOT / name, file.parent / name, ROOT / "sdk/include" / name):
                if candidate.exists() and candidate not in found:
                    found.add(candidate)
                    rest.append(candidate)
    return frozenset(found)


@cache
def digest_of(path: Path) -> bytes:
    return hashlib.sha256(path.read_bytes()).digest()


class Analysis:
    def __init__(self, folder: Path, sources: list[str]):
        self.folder = folder
        self.tool = subprocess.run(["clang-tidy", "--version"], check=True, capture_output=True, text=True).stdout
        self.flags = self.read_flags()
        self.sources = [ROOT / source for source in sources if ROOT / source in self.flags]
        self.memory = folder / "analysed.json"
        self.clean: dict[str, str] = json.loads(self.memory.read_text()) if self.memory.exists() else {}
        self.lock = threading.Lock()  # protects what follows, and the terminal
        self.batches = 0
        self.said: set[str] = set()

    def read_flags(self) -> dict[Path, tuple[str, ...]]:
        flags: dict[Path, tuple[str, ...]] = {}
        for entry in json.loads((self.folder / "compile_commands.json").read_text()):
            words = shlex.split(entry["command"])
            # c++ FLAGS -o OBJECT -c SOURCE
            file = Path(entry["directory"], entry["file"]).resolve()  # CMake keeps links in the path of a checkout
            flags.setdefault(file, tuple(words[1 : words.index("-o")]))
        return flags

    def key(self, source: Path) -> str:
        sha = hashlib.sha256(repr((self.tool, self.flags[source])).encode())
        for path in [ROOT / ".clang-tidy", *sorted(headers_below(source))]:
            sha.update(str(path).encode() + digest_of(path))
        return sha.hexdigest()

    def run(self) -> bool:
        keys = {source: self.key(source) for source in self.sources}
        stale = [source for source in self.sources if self.clean.get(str(source)) != keys[source]]

        def kind(source: Path):  # two programs together would have main() twice
            program = re.search(r"^int main\(", source.read_text(), re.MULTILINE)
            return str(source.parent), self.flags[source], str(source) if program else ""

        groups = [list(group) for _, group in groupby(sorted(stale, key=kind), key=kind)]
        batches = [g[i : i + BATCH_SOURCES_MAX] for g in groups for i in range(0, len(g), BATCH_SOURCES_MAX)]
        batches.sort(key=lambda batch: -len(batch))
        with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
            for done in [pool.submit(self.analyse, batch, keys) for batch in batches]:
                done.result()
        return not self.said

    def analyse(self, sources: list[Path], keys: dict[Path, str]) -> None:
        with self.lock:
            self.batches += 1
            batch = self.folder / "batches" / f"{self.batches}.cc"
        batch.parent.mkdir(exist_ok=True)
        batch.write_text("".join(f'#include "{source}"\n' for source in sources))
        checked = batch if len(sources) > 1 else sources[0]
        extra = ["--checks=-bugprone-suspicious-include"] if len(sources) > 1 else []
        command = ["clang-tidy", "--quiet", *extra, str(checked), "--", *self.flags[sources[0]]]
        result = subprocess.run(command, cwd=self.folder, capture_output=True, text=True)
        if len(sources) > 1 and "[clang-diagnostic-error" in result.stdout:
            half = len(sources) // 2
            self.analyse(sources[:half], keys)
            self.analyse(sources[half:], keys)
            return
        findings = dict.fromkeys(text for text in START.split(result.stdout) if START.match(text))
        blamed = {Path(START.match(text)[1]).resolve() for text in findings}
        read = frozenset().union(*map(headers_below, sources))
        if result.returncode != 0 and not (blamed and blamed <= read):  # a crash, or an error in a foreign header
            blamed = read
            findings = findings or {f"{checked}: clang-tidy ended with {result.returncode}\n{result.stderr}": None}
        with self.lock:
            self.clean.update((str(source), keys[source]) for source in sources if not headers_below(source) & blamed)
            self.memory.write_text(json.dumps(self.clean, indent=0))
            sys.stdout.write("".join(text for text in findings if text not in self.said))
            sys.stdout.flush()
            self.said.update(findings)


def main() -> int:
    analysis = Analysis(Path(sys.argv[1]).resolve(), sys.argv[2:])
    folder = analysis.folder  # below it are sources that CMake made
    if sys.argv[2:] and not any(ROOT in file.parents and folder not in file.parents for file in analysis.flags):
        sys.exit(f"clang-tidy: {folder}/compile_commands.json has no source of {ROOT}")
    passed = analysis.run()
    print(f"clang-tidy: {len(analysis.sources)} sources, {analysis.batches} batches analysed now")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
