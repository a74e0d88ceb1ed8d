"""Restoring a checkpoint of 512 MiB that two ranks wrote: by two ranks, and by one.

For comparison, the same processes read its files plainly right before and right after, in pieces of 1 MiB into memory that
is in use. All three make a sample, by the slowest rank. We measure the workers' get_checkpoint() and load(), including
verification, but not train-run's own look at the checkpoint before. We also report the ratio of the processor times of the
rank's process, which holds on a busy machine, too.
"""

from __future__ import annotations

import json

from harness.cases import Case, Goal, Metric, Subject
from harness.lab import Lab
from harness.options import Options
from harness.processes import Child, Failed, Scope
from harness.ray_cluster import RayCluster

MIB = 512
WRITERS = 2
LIMIT_S = 180.0


def start(lab: Lab, scope: Scope, name: str, workers: int, cold: bool, committed: str = "") -> Child:
    command = [str(lab.program("restore_worker")), str(MIB), str(scope.folder), *(["cold"] if cold else [])]
    spec = {"name": name, "command": command, "train_loop_config": {"committed": committed},
            "scaling_config": {"num_workers": workers, "resources_per_worker": {"CPU": 0}},
            "run_config": {"storage_path": str(scope.folder / "runs")}}
    if committed:
        spec["resume_from_checkpoint"] = committed
    path = scope.folder / f"{name}.yaml"
    path.write_text(json.dumps(spec), encoding="utf-8")
    return scope.start([str(lab.train_run), str(path)])


def finish(child: Child) -> None:
    code = child.wait(LIMIT_S)
    if code != 0:
        raise Failed("failed", f"ended with {code}: {child.describe()}")


def restore(lab: Lab, workers: int, cold: bool) -> dict[str, float]:
    with Scope() as scope:
        finish(start(lab, scope, "wrote", WRITERS, cold))
        committed = scope.folder / "runs" / "wrote" / "checkpoints" / "checkpoint_000001"
        finish(start(lab, scope, "read", workers, cold, str(committed)))
        ranks = [[int(text) / 1e9 for text in (scope.folder / f"restore-{rank}.txt").read_text(encoding="ascii").split()]
                 for rank in range(workers)]
        before, before_cpu, restored, restored_cpu, after, after_cpu = (max(column) for column in zip(*ranks))
        read, read_cpu = (before + after) / 2, (before_cpu + after_cpu) / 2
        return {"restore": restored, "read": read, "ratio": restored / read, "cpu_ratio": restored_cpu / read_cpu}


def cases(lab: Lab, options: Options, ray: RayCluster) -> list[Case]:
    """Return the cases: the same world size and half of it, with and without the files in the page cache."""
    del options, ray
    missing = lab.missing(lab.train_run, lab.program("restore_worker"))

    def case(name: str, title: str, workers: int, cold: bool) -> Case:
        return Case(name, f"Restore {MIB} MiB of {WRITERS} ranks {title}",
                    [Metric("restore", "get_checkpoint() and load()"), Metric("read", "reading the files"),
                     Metric("ratio", "restore / reading", "count", goal=Goal(at_most=1.3)),
                     Metric("cpu_ratio", "the same of processor time", "count")],
                    [Subject("ours", lambda: restore(lab, workers, cold), lab.count(3, 10), missing)])

    return [case("same", "by 2 ranks, files in the page cache", 2, False),
            case("half", "by 1 rank, files in the page cache", 1, False),
            case("same_cold", "by 2 ranks, files dropped from the page cache before each", 2, True),
            case("half_cold", "by 1 rank, files dropped from the page cache before each", 1, True)]
