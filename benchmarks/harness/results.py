"""Writes the results: benchmarks/RESULTS.md for people, build/bench/*.json for programs."""

from __future__ import annotations

import datetime
import json
import os
import platform
import re
from pathlib import Path

from .cases import CaseResult
from .tables import case_table

INTRODUCTION = """# Results

Written by `make bench` (`benchmarks/run.py`): a section for each machine and kind of run, in it a part for each measure, which the
next run replaces. What is measured and how: [README.md](README.md). The raw samples lie in `build/bench/`.

Each part says when it was measured. What was changed later is not in its figures, so parts of different dates are not to be set side
by side. A goal that fewer than five samples speak for stays open.
"""


def machine() -> str:
    """Return the machine in a line: processor, cores, memory, kernel."""
    model = "unknown processor"
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            model = " ".join(line.partition(":")[2].split())
            break
    memory_gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{model}, {len(os.sched_getaffinity(0))} cores, {memory_gib:.0f} GiB, Linux {platform.release()}"


def split_sections(text: str, level: str) -> tuple[str, dict[str, str]]:
    """Return the text before the first heading of this level ("## "), and each heading with its body."""
    parts = re.split(rf"^{level}(.+)\n", text, flags=re.MULTILINE)
    return parts[0], dict(zip(parts[1::2], parts[2::2]))


def merge(old: str, section: str, part: str, body: str) -> str:
    """Return the document with one measure's part replaced or added. Pure."""
    _, sections = split_sections(old, "## ")
    _, parts = split_sections(sections.get(section, ""), "### ")
    parts[part] = body
    sections[section] = "\n\n".join(f"### {name}\n\n{text.strip()}" for name, text in parts.items())
    return INTRODUCTION + "".join(f"\n## {name}\n\n{text.strip()}\n" for name, text in sections.items())


def write_results(path: Path, kind: str, measure: str, results: list[CaseResult]) -> None:
    """Put the tables of a measure into RESULTS.md."""
    now = datetime.datetime.now().astimezone().strftime("%Y-%m-%d %H:%M %Z")
    load = os.getloadavg()[0]
    body = f"Measured {now}; load average at the end {load:.1f}.\n\n" + "\n".join(case_table(result) for result in results)
    old = path.read_text(encoding="utf-8") if path.exists() else ""
    path.write_text(merge(old, f"{kind}: {machine()}", measure, body), encoding="utf-8")


def write_raw(folder: Path, measure: str, results: list[CaseResult]) -> Path:
    """Write all samples as JSON."""
    folder.mkdir(parents=True, exist_ok=True)
    now = datetime.datetime.now().astimezone()
    path = folder / f"{measure}-{now.strftime('%Y%m%dT%H%M%S')}.json"
    content = {
        "measure": measure, "date": now.isoformat(timespec="seconds"), "machine": machine(), "load": os.getloadavg(),
        "cases": [{
            "name": result.case.name, "title": result.case.title,
            "metrics": {metric.key: {"title": metric.title, "unit": metric.unit} for metric in result.case.metrics},
            "subjects": {name: {"values": one.values, "failures": one.failures, "taken": one.taken, "missing": one.missing}
                         for name, one in result.samples.items()},
        } for result in results],
    }
    path.write_text(json.dumps(content, indent=1), encoding="utf-8")
    return path
