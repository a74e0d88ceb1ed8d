"""Memory of the idle system: the proportional set size (PSS) of everything except the workers, while two workers wait.

Ours: traind, supervisor, launcher. torchrun: its agent. Ray: the head, without any run.
"""

from __future__ import annotations

import time
from pathlib import Path

from harness.cases import Case, Goal, Metric, Subject
from harness.commands import start_ours, start_torchrun
from harness.lab import Lab
from harness.options import Options
from harness.processes import Child, Failed, Scope
from harness.ray_cluster import RayCluster

WORKERS = 2
SETTLED_WITHIN = 0.01      # three readings, a second apart, that differ by no more
SETTLE_TIMEOUT_S = 30.0
READY_TIMEOUT_S = 60.0


def pss_mib(pid: int) -> float:
    """Return the proportional set size of one process, or 0 if it has just ended."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines()
    except OSError:
        return 0.0
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024


def total(pids: set[int]) -> dict[str, float]:
    """Return the memory and the number of processes."""
    if not pids:
        raise Failed("failed", "no process of the system was found")
    return {"pss": sum(map(pss_mib, pids)), "processes": float(len(pids))}


def settled(scope: Scope, workers: set[int]) -> dict[str, float]:
    """Return the total of the scope without its workers, once it no longer changes."""
    readings: list[dict[str, float]] = []
    deadline = time.monotonic() + SETTLE_TIMEOUT_S
    while time.monotonic() < deadline:
        readings.append(total(scope.pids() - workers))
        last = [reading["pss"] for reading in readings[-3:]]
        if len(last) == 3 and max(last) - min(last) <= SETTLED_WITHIN * max(last):
            return readings[-1]
        time.sleep(1.0)
    raise Failed("failed", f"memory still changed after {SETTLE_TIMEOUT_S:.0f} s: {readings[-3:]}")


def with_waiting_workers(scope: Scope, child: Child) -> dict[str, float]:
    """Measure the system with two waiting workers."""
    ready = scope.wait_events(child, "first_line", WORKERS, READY_TIMEOUT_S)
    return settled(scope, {event.pid for event in ready})


def ours(lab: Lab) -> dict[str, float]:
    with Scope() as scope:
        scope.hold()
        return with_waiting_workers(scope, start_ours(lab, scope, [str(lab.program("first_line"))], WORKERS))


def torchrun(lab: Lab) -> dict[str, float]:
    with Scope() as scope:
        scope.hold()
        return with_waiting_workers(scope, start_torchrun(lab, scope, [str(lab.program("first_line"))], WORKERS))


def ray_head(lab: Lab) -> dict[str, float]:
    cluster = RayCluster(lab)  # a new one: another measure's has spare workers
    try:
        return settled(cluster.scope, set())
    finally:
        cluster.stop()


def cases(lab: Lab, options: Options, ray: RayCluster) -> list[Case]:
    """Return one case."""
    del options, ray
    program = lab.program("first_line")
    return [Case(
        "idle", "Memory of the idle system (PSS), workers not counted",
        [Metric("pss", "memory", "MiB", goal=Goal(at_most=40.0)), Metric("processes", "processes", "count")],
        [Subject("ours", lambda: ours(lab), 5, lab.missing(lab.train_run, program)),
         Subject("torchrun", lambda: torchrun(lab), 5, lab.missing(lab.torch_python, program)),
         Subject("ray", lambda: ray_head(lab), 3, lab.missing(lab.ray_python))])]
