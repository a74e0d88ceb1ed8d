"""The effects of a SIGKILL of one worker (the group restarts, or the run ends), and of the launcher itself.

The workers wait or step until they are killed. The harness kills rank 1 and waits until every rank of a new group has had
its first line or its first training step. The new workers end by themselves, and the command must then end with 0.
"""

from __future__ import annotations

import os
import signal
import time

from harness.cases import Case, Goal, Metric, Subject
from harness.commands import start_ours, start_torchrun
from harness.lab import Lab
from harness.options import Options
from harness.processes import Child, Event, Failed, Scope, alive
from harness.ray_cluster import RayCluster

WORKERS = 2
RESTARTS = 3
READY_TIMEOUT_S = 90.0
END_TIMEOUT_S = 60.0
ORPHAN_WAIT_S = 10.0
STANDBY_CALM_S = 0.5  # after the last one's first line
ORPHAN_TIMEOUT = "3s"  # of our run, when we kill the launcher


class Starter:
    """Starts one subject's run with workers of one kind: "noop" or "torch"."""

    def __init__(self, lab: Lab, ray: RayCluster, name: str, kind: str) -> None:
        self._lab, self._ray, self._name, self._kind = lab, ray, name, kind

    def start(self, scope: Scope, restarts: int, failure_config: dict | None = None) -> Child:
        """Start it, with this many restarts of the group left."""
        lab, script = self._lab, str(self._lab.programs / "torch_worker.py")
        program = str(lab.program("first_line" if self._kind == "noop" else "torch_worker"))
        if self._name == "ours":
            return start_ours(lab, scope, [program], WORKERS, max_failures=restarts, failure_config=failure_config)
        if self._name == "ours, standby":
            return start_ours(lab, scope, [program], WORKERS, max_failures=restarts, standby_workers=WORKERS)
        if self._name == "ours, python":
            return start_ours(lab, scope, [str(lab.torch_python), script], WORKERS, max_failures=restarts)
        if self._name == "torchrun":
            python = self._kind == "torch"
            return start_torchrun(lab, scope, [script if python else program], WORKERS, max_restarts=restarts, python=python)
        if self._name == "torchrun, C++":
            return start_torchrun(lab, scope, [program], WORKERS, max_restarts=restarts)
        if self._name == "torchrun, own store":
            return start_torchrun(lab, scope, [script], WORKERS, max_restarts=restarts, python=True, own_store=True)
        return self._ray.start_driver(scope, self._kind, WORKERS, arguments=[f"--max-failures={restarts}"])

    def prepare(self) -> None:
        """Prepare the cluster before anything is timed."""
        if self._name == "ray":
            self._ray.warm_up()

    def missing(self) -> str | None:
        """Return what is missing."""
        lab = self._lab
        program = lab.program("first_line" if self._kind == "noop" else "torch_worker")
        return {"ours": lab.missing(lab.train_run, program), "ours, standby": lab.missing(lab.train_run, program),
                "ours, python": lab.missing(lab.train_run, lab.torch_python),
                "torchrun": lab.missing(lab.torch_python, *([program] if self._kind == "noop" else [])),
                "torchrun, own store": lab.missing(lab.torch_python), "torchrun, C++": lab.missing(lab.torch_python, program),
                "ray": lab.missing(lab.ray_python)}[self._name]

    def wait_for_standbys(self, scope: Scope) -> None:
        """Wait until the standbys, if any, have loaded their libraries and wait."""
        if self._name != "ours, standby":
            return
        deadline = time.monotonic() + READY_TIMEOUT_S
        while len({event.pid for event in scope.events() if event.name == "first_line"}) < 2 * WORKERS:
            if time.monotonic() > deadline:
                raise Failed("hung", f"nobody stands by after {READY_TIMEOUT_S:.0f} s")
            time.sleep(0.05)
        time.sleep(STANDBY_CALM_S)

    def ready_event(self) -> str:
        """Return the event after which a group counts as running."""
        return "first_line" if self._kind == "noop" else "first_step"


def restart(lab: Lab, starter: Starter) -> dict[str, float]:
    """Time from the SIGKILL of rank 1 until the last rank of the new group is there."""
    starter.prepare()
    event = starter.ready_event()
    with Scope() as scope:
        scope.hold()
        child = starter.start(scope, RESTARTS)
        ready = scope.wait_events(child, event, WORKERS, READY_TIMEOUT_S)
        starter.wait_for_standbys(scope)
        scope.release()
        killed_ns = kill_rank_1(ready)
        again = scope.wait_events(child, event, WORKERS, lab.hang_s, after_ns=killed_ns)
        old = {each.pid for each in ready}
        if any(each.pid in old for each in again):
            raise Failed("failed", f"a worker of the old group went on: {again}")
        code = child.wait(END_TIMEOUT_S)
        if code != 0:
            raise Failed("failed", f"the restarted group came, but the run ended with {code}: {child.describe()}")
        return {"again": (max(each.at_ns for each in again) - killed_ns) / 1e9}


def kill_rank_1(ready: list[Event]) -> int:
    """Send SIGKILL to rank 1. Return the time just before."""
    pid = next(event.pid for event in ready if event.rank == 1)
    now = time.monotonic_ns()
    os.kill(pid, signal.SIGKILL)
    return now


def exit_after_kill(lab: Lab, starter: Starter) -> dict[str, float]:
    """Time from the SIGKILL of rank 1, with no restarts left, until the command has ended with an error."""
    starter.prepare()
    with Scope() as scope:
        scope.hold()
        child = starter.start(scope, 0)
        ready = scope.wait_events(child, starter.ready_event(), WORKERS, READY_TIMEOUT_S)
        killed_ns = kill_rank_1(ready)
        code = child.wait(lab.hang_s)
        if code == 0:
            raise Failed("failed", f"ended with 0 although a worker was killed: {child.describe()}")
        assert child.ended_ns is not None
        return {"exit": (child.ended_ns - killed_ns) / 1e9}


def orphans(ray: RayCluster, starter: Starter, is_ray: bool) -> dict[str, float]:
    """Count the workers and other processes that are left 10 s after a SIGKILL of the command itself."""
    starter.prepare()
    before = ray.scope.pids() if is_ray else set()
    with Scope() as scope:
        scope.hold()
        child = starter.start(scope, 0, {"orphan_timeout": ORPHAN_TIMEOUT})
        ready = scope.wait_events(child, starter.ready_event(), WORKERS, READY_TIMEOUT_S)
        child.kill(signal.SIGKILL)
        workers = {event.pid for event in ready}
        time.sleep(ORPHAN_WAIT_S)
        everything = scope.pids() | (ray.scope.pids() if is_ray else set())
        left = {"workers": float(sum(alive(pid) for pid in workers)), "others": float(len(everything - before - workers))}
    if is_ray:
        ray.stop()  # otherwise the killed driver's leftovers would be in the next sample
    return left


def cases(lab: Lab, options: Options, ray: RayCluster) -> list[Case]:
    """Return the cases: restart with both kinds of workers, exit, orphans."""
    del options

    def subject(name: str, kind: str, sample, count: int) -> Subject:
        starter = Starter(lab, ray, name, kind)
        return Subject(name, lambda: sample(starter), count, starter.missing())

    def again(starter: Starter) -> dict[str, float]:
        return restart(lab, starter)

    def ended(starter: Starter) -> dict[str, float]:
        return exit_after_kill(lab, starter)

    def left(is_ray: bool):
        return lambda starter: orphans(ray, starter, is_ray)

    return [
        Case("restart-noop", "SIGKILL of a worker → first line of the restarted group, 2 no-op workers",
             [Metric("again", "first line again", goal=Goal(at_most=0.04))],
             [subject("ours", "noop", again, lab.count(10, 20)), subject("torchrun", "noop", again, lab.count(5, 7)),
              subject("ray", "noop", again, lab.count(3, 5))]),
        Case("restart-torch", "SIGKILL of a worker → first step of the restarted group, 2 torch workers over gloo",
             [Metric("again", "first step again", goal=Goal(at_most=0.5))],
             [subject("ours", "torch", again, lab.count(20, 100)), subject("ours, standby", "torch", again, lab.count(5, 10)),
              subject("ours, python", "torch", again, lab.count(5, 7)),
              subject("torchrun", "torch", again, lab.count(5, 10)), subject("torchrun, own store", "torch", again, lab.count(5, 10)),
              subject("torchrun, C++", "torch", again, lab.count(5, 10)), subject("ray", "torch", again, lab.count(3, 5))]),
        Case("exit", "SIGKILL of a worker with no restarts left → the command has ended",
             [Metric("exit", "exit", goal=Goal(at_most=0.05))],
             [subject("ours", "noop", ended, lab.count(10, 20)), subject("torchrun", "noop", ended, lab.count(5, 7)),
              subject("ray", "noop", ended, lab.count(3, 5))]),
        Case("orphans", f"SIGKILL of the launcher → left {ORPHAN_WAIT_S:.0f} s later (ours with orphan_timeout {ORPHAN_TIMEOUT})",
             [Metric("workers", "workers left", "count", goal=Goal(at_most=0)),
              Metric("others", "other processes left", "count", goal=Goal(at_most=0))],
             [subject("ours", "noop", left(False), 5), subject("torchrun", "noop", left(False), 5),
              subject("ray", "noop", left(True), 3)]),
    ]
