"""A random search whose trials do nothing: the cost of a trial to whoever searches, and what a search leaves behind.

Ours: the whole command, from its start to its end; each trial is a run, with a journal and a controller of its own, and its
worker is a process. Ray Tune: `Tuner.fit()` alone, in a cluster that is up; its trials are actors, which run a function.
Memory, and what is left, count all processes: our train-run of the sweep, those of the trials, traind and supervisors; Ray's
driver and its cluster of one node, which the driver has started.
"""

from __future__ import annotations

import json
import signal
import time
from typing import Callable

from harness.cases import Case, Goal, Metric, Subject
from harness.lab import Lab
from harness.options import Options
from harness.processes import Child, Failed, Scope, alive
from harness.ray_cluster import RayCluster, new_token, ray_environment

from .memory import settled

AT_ONCE = 2
TIMEOUT_S = 300.0
READY_TIMEOUT_S = 60.0
LEFT_AFTER_S = (10.0, 30.0)  # ours gives workers ten seconds to be found again

Starter = Callable[[Lab, Scope, int], Child]


def ended_well(child: Child) -> None:
    """Wait for the command's end."""
    code = child.wait(TIMEOUT_S)
    if code != 0:
        raise Failed("failed", f"ended with {code}: {child.describe()}")


def start_ours(lab: Lab, scope: Scope, trials: int) -> Child:
    spec = {
        "name": "bench",
        "command": [str(lab.program("first_line"))],
        "scaling_config": {"resources_per_worker": {"CPU": 0}},
        "run_config": {"storage_path": str(scope.folder / "runs")},
        "sweep": {"metric": "loss", "num_trials": trials, "max_concurrent_trials": AT_ONCE,
                  "parameters": {"x": {"uniform": [0, 1]}}},
    }
    path = scope.folder / "job.yaml"
    path.write_text(json.dumps(spec, indent=1), encoding="utf-8")
    return scope.start([str(lab.train_run), "sweep", str(path)])


def start_ray(lab: Lab, scope: Scope, trials: int) -> Child:
    script = lab.programs / "sweep_ray.py"
    return scope.start([str(lab.ray_python), str(script), str(trials), str(AT_ONCE), str(scope.folder / "tune")],
                       ray_environment(new_token()))


def ours(lab: Lab, trials: int) -> dict[str, float]:
    """Return the trials per second of `train-run sweep`."""
    with Scope() as scope:
        child = start_ours(lab, scope, trials)
        ended_well(child)
        ran = sum(1 for event in scope.events() if event.name == "first_line")
        if ran != trials or child.ended_ns is None:
            raise Failed("failed", f"{ran} of {trials} trials ran: {child.describe()}")
        return {"trials": trials / ((child.ended_ns - child.started_ns) / 1e9)}


def ray_tune(lab: Lab, trials: int) -> dict[str, float]:
    """Return the trials per second of Tuner.fit()."""
    with Scope() as scope:
        child = start_ray(lab, scope, trials)
        ended_well(child)
        at = {event.name: event.at_ns for event in scope.events()}
        return {"trials": trials / ((at["fitted"] - at["ready"]) / 1e9)}


def waiting_workers(scope: Scope, child: Child) -> set[int]:
    """Wait until AT_ONCE trials run. Return their workers."""
    def workers() -> set[int]:
        return {event.pid for event in scope.events() if event.name == "first_line"}
    if not scope.wait_until(lambda: len(workers()) >= AT_ONCE or not child.running(), READY_TIMEOUT_S):
        raise Failed("hung", f"{len(workers())} of {AT_ONCE} trials ran: {child.describe()}")
    if not child.running():
        raise Failed("failed", f"ended with {child.wait(0)}: {child.describe()}")
    return workers()


def memory(lab: Lab, start: Starter) -> dict[str, float]:
    """Return the PSS of all processes but the workers, while trials wait."""
    with Scope() as scope:
        scope.hold()
        child = start(lab, scope, AT_ONCE)
        return settled(scope, waiting_workers(scope, child))


def left_behind(lab: Lab, start: Starter) -> dict[str, float]:
    """Count what is left after a SIGKILL of the command that searches."""
    with Scope() as scope:
        scope.hold()
        child = start(lab, scope, AT_ONCE)
        workers = waiting_workers(scope, child)
        scope.pids()  # so that they are known when their parent has gone
        child.kill(signal.SIGKILL)
        killed_at = time.monotonic()
        left = {}
        for after_s in LEFT_AFTER_S:
            time.sleep(max(0.0, killed_at + after_s - time.monotonic()))
            left[f"workers_{after_s:.0f}"] = float(sum(alive(pid) for pid in workers))
            left[f"others_{after_s:.0f}"] = float(len(scope.pids() - workers))
        return left


def cases(lab: Lab, options: Options, ray: RayCluster) -> list[Case]:
    """Return the cases: trials that do nothing, memory while two of them wait, and what a SIGKILL of the driver leaves."""
    trials = lab.count(20, 40)

    def both(measure: Callable[[Lab, Starter], dict[str, float]], counts: tuple[int, int]) -> list[Subject]:
        return [Subject("ours", lambda: measure(lab, start_ours), counts[0], lab.missing(lab.train_run, lab.program("first_line"))),
                Subject("ray", lambda: measure(lab, start_ray), counts[1], lab.missing(lab.ray_python))]

    left = [Metric(f"{what}_{after_s:.0f}", f"{title} left after {after_s:.0f} s", "count", goal=Goal(at_most=0))
            for after_s in LEFT_AFTER_S for what, title in (("workers", "workers"), ("others", "other processes"))]
    return [Case(
        "sweep-noop", f"{trials} trials that do nothing, {AT_ONCE} at once",
        [Metric("trials", "trials per second", unit="1/s", higher_is_better=True,
                goal=Goal(times_better=("ray", 2.0)))],
        [
            Subject("ours", lambda: ours(lab, trials), lab.count(3, 5),
                    lab.missing(lab.train_run, lab.program("first_line"))),
            Subject("ray", lambda: ray_tune(lab, trials), lab.count(2, 3), lab.missing(lab.ray_python)),
        ]),
        Case("sweep-memory", f"Memory (PSS) while {AT_ONCE} trials wait, their workers not counted",
             [Metric("pss", "memory", "MiB"), Metric("processes", "processes", "count")],
             both(memory, (lab.count(3, 5), lab.count(2, 3)))),
        Case("sweep-killed", f"SIGKILL of the command that searches, while {AT_ONCE} trials wait", left,
             both(left_behind, (lab.count(3, 5), lab.count(2, 3))))]
