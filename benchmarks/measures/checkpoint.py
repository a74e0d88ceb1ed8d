"""Checkpoints of a state of which two ranks hold half each: how long the loop stalls, and when all is safe on disk.

In each sample, of ours and the peers, the first checkpoint is left out, because it makes buffers and starts a process.
Beside the times, we report their ratios to a memcpy of the same bytes in the same loop, and to `cp && sync` of the same
files right after the run.
"""

from __future__ import annotations

import shutil
import statistics
import subprocess
import time
from pathlib import Path

from harness.cases import Case, Goal, Metric, Subject
from harness.commands import run_folder, start_ours, start_torchrun
from harness.lab import Lab
from harness.options import Options
from harness.processes import Child, Failed, Scope
from harness.ray_cluster import RayCluster

WORKERS = 2
MIB = 256  # per rank
CHECKPOINTS = 4
LIMIT_S = 180.0


def read_times(folder: Path) -> list[tuple[float, float, float]]:
    """Return (stall, memcpy, committed) of each checkpoint but the first, by the slowest rank."""
    ranks = []
    for rank in range(WORKERS):
        lines = (folder / f"checkpoints-{rank}.txt").read_text(encoding="ascii").splitlines()
        ranks.append([tuple(int(text) / 1e9 for text in line.split()) for line in lines])
    if any(len(times) != CHECKPOINTS for times in ranks):
        raise Failed("failed", f"not all of {CHECKPOINTS} checkpoints were made: {ranks}")
    return [tuple(max(each) for each in zip(*rows)) for rows in list(zip(*ranks))[1:]]


def copy_s(newest: list[Path], scope: Scope) -> float:
    """Time `cp` of these files and folders, and `sync` of what it wrote."""
    copy = scope.folder / "copy"
    copy.mkdir()
    begin = time.monotonic()
    subprocess.run(["cp", "-r", *map(str, newest), str(copy)], check=True)
    subprocess.run(["sync", "-f", str(copy)], check=True)
    took = time.monotonic() - begin
    shutil.rmtree(copy)
    return took


def figures(scope: Scope, child: Child, newest) -> dict[str, float]:
    code = child.wait(LIMIT_S)
    if code != 0:
        raise Failed("failed", f"ended with {code}: {child.describe()}")
    stall, memcpy, committed = (statistics.median(column) for column in zip(*read_times(scope.folder)))
    copied = copy_s(newest(), scope)
    return {"stall": stall, "memcpy": memcpy, "stall_ratio": stall / memcpy,
            "committed": committed, "cp": copied, "committed_ratio": committed / copied}


def ours(lab: Lab) -> dict[str, float]:
    with Scope() as scope:
        command = [str(lab.program("checkpoint_worker")), str(MIB), str(CHECKPOINTS), str(scope.folder)]
        child = start_ours(lab, scope, command, WORKERS)
        return figures(scope, child, lambda: [run_folder(scope) / "checkpoints" / f"checkpoint_{CHECKPOINTS:06d}"])


def pytorch(lab: Lab, how: str) -> dict[str, float]:
    with Scope() as scope:
        command = [str(lab.programs / "checkpoint_dcp.py"), how, str(MIB), str(CHECKPOINTS), str(scope.folder)]
        child = start_torchrun(lab, scope, command, WORKERS, python=True)
        return figures(scope, child, lambda: sorted(scope.folder.glob(f"dcp-{CHECKPOINTS}*")))


def cases(lab: Lab, options: Options, ray: RayCluster) -> list[Case]:
    """Return one case: 512 MiB by two ranks."""
    del options, ray
    missing = lab.missing(lab.torch_python)

    def peer(name: str, how: str) -> Subject:
        return Subject(name, lambda: pytorch(lab, how), 5, missing)

    return [
        Case("save", f"A checkpoint of {WORKERS * MIB} MiB by {WORKERS} ranks, from the second one on",
             [Metric("stall", "the loop stands still"), Metric("memcpy", "memcpy of the same bytes"),
              Metric("stall_ratio", "stands still / memcpy", "count", goal=Goal(at_most=1.6)),
              Metric("committed", "safe on disk"), Metric("cp", "cp && sync of the same files"),
              Metric("committed_ratio", "safe on disk / cp && sync", "count", goal=Goal(at_most=1.2))],
             [Subject("ours", lambda: ours(lab), lab.count(5, 10), lab.missing(lab.train_run, lab.program("checkpoint_worker"))),
              peer("dcp async", "async"), peer("dcp async, tuned", "tuned"), peer("dcp async, process", "process"),
              peer("dcp sync", "sync"), peer("torch.save", "save")]),
    ]
