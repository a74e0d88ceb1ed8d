"""The same faults for all: SIGKILL of a worker, of the launcher, of the node's daemon, while two workers step every 20 ms.

Nobody helps after a worker's death. After the launcher's, and after that of Ray's daemon, the harness does at once what a
user would do: `train-run resume RUN`, or the same command again.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Callable

from harness.cases import Case, Metric, Subject
from harness.commands import run_folder, start_ours, start_torchrun
from harness.lab import Lab
from harness.options import Options
from harness.processes import Child, Event, Failed, Scope, alive
from harness.ray_cluster import RayCluster

WORKERS = 2
RESTARTS = 3
READY_TIMEOUT_S = 90.0
END_TIMEOUT_S = 60.0
CALM_S = 3.0  # after the last help; then every rank must step again

Fault = Callable[[Scope, Child, list[Event]], Child]  # kills something, helps; gives the command to wait for


def now_ns() -> int:
    return time.monotonic_ns()


def stood_still_s(steps: list[Event], old: dict[int, int], killed_ns: int) -> float:
    """The longest that a rank had no step: until the first one of the process that took its place, if one did."""
    longest = 0.0
    for rank, pid in old.items():
        mine = sorted((step for step in steps if step.rank == rank), key=lambda step: step.at_ns)
        new = [step.at_ns for step in mine if step.pid != pid]
        before = max(step.at_ns for step in mine if step.pid == pid and step.at_ns <= killed_ns)
        times = [before, new[0]] if new else [before, *(step.at_ns for step in mine if step.at_ns > killed_ns)]
        longest = max([longest, *((b - a) / 1e9 for a, b in zip(times, times[1:]))])
    return longest


def sample(lab: Lab, start: Callable[[Scope], Child], fault: Fault) -> dict[str, float]:
    with Scope() as scope:
        scope.hold()
        child = start(scope)
        ready = scope.wait_events(child, "step", WORKERS, READY_TIMEOUT_S)
        old = {event.rank: event.pid for event in ready}
        killed_ns = now_ns()
        child = fault(scope, child, ready)
        time.sleep(CALM_S)
        scope.wait_events(child, "step", WORKERS, lab.hang_s, after_ns=now_ns())
        steps = [event for event in scope.events() if event.name == "step"]
        started = {step.pid for step in steps} - set(old.values())
        beside = sum(alive(pid) for pid in old.values()) if started else 0
        scope.release()
        code = child.wait(END_TIMEOUT_S)
        if code != 0:
            raise Failed("failed", f"training went on, but the command ended with {code}: {child.describe()}")
        return {"still": stood_still_s(steps, old, killed_ns), "started": float(len(started)), "beside": float(beside)}


def kill_worker(scope: Scope, child: Child, ready: list[Event]) -> Child:
    del scope
    os.kill(next(event.pid for event in ready if event.rank == 1), signal.SIGKILL)
    return child


def kill_launcher(again: Callable[[Scope], Child]) -> Fault:
    def fault(scope: Scope, child: Child, ready: list[Event]) -> Child:
        del ready
        child.kill(signal.SIGKILL)
        child.wait(END_TIMEOUT_S)
        return again(scope)
    return fault


def pids_of(scope: Scope, word: str) -> list[int]:
    """Processes of a scope whose command line begins with a program of this name."""
    found = []
    for pid in scope.pids():
        try:
            command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if Path(command[0].decode(errors="replace")).name == word and b"supervise" not in command:
            found.append(pid)
    return found


def kill_traind(scope: Scope, child: Child, ready: list[Event]) -> Child:
    del ready
    pids = pids_of(scope, "traind")
    if len(pids) != 1:
        raise Failed("failed", f"one traind was expected, there are {pids}")
    os.kill(pids[0], signal.SIGKILL)
    return child


def kill_raylet(ray: RayCluster, again: Callable[[Scope], Child]) -> Fault:
    def fault(scope: Scope, child: Child, ready: list[Event]) -> Child:
        del ready
        for pid in pids_of(ray.scope, "raylet"):
            os.kill(pid, signal.SIGKILL)
        # what is left of the cluster is of no use: a user stops it, and starts anew
        child.kill(signal.SIGKILL)
        ray.stop()
        return again(scope)
    return fault


def cases(lab: Lab, options: Options, ray: RayCluster) -> list[Case]:
    """One case a fault."""
    del options
    program = str(lab.program("stepper"))

    def ours(restarts: int) -> Callable[[Scope], Child]:
        return lambda scope: start_ours(lab, scope, [program], WORKERS, max_failures=restarts)

    def resume(scope: Scope) -> Child:
        return scope.start([str(lab.train_run), "resume", str(run_folder(scope))])

    def torchrun(restarts: int) -> Callable[[Scope], Child]:
        return lambda scope: start_torchrun(lab, scope, [program], WORKERS, max_restarts=restarts)

    def driver(restarts: int) -> Callable[[Scope], Child]:
        return lambda scope: ray.start_driver(scope, "step", WORKERS, arguments=[f"--max-failures={restarts}"])

    def subject(name: str, start: Callable[[Scope], Child], fault: Fault, quick: int) -> Subject:
        needed = {"ours": (lab.train_run, lab.program("stepper")), "torchrun": (lab.torch_python, lab.program("stepper")),
                  "ray": (lab.ray_python,)}[name]

        def take() -> dict[str, float]:
            if name == "ray":
                ray.warm_up()
            return sample(lab, start, fault)
        return Subject(name, take, lab.count(quick, 10), lab.missing(*needed))

    metrics = [Metric("still", "training stood still"), Metric("started", "workers started again", "count"),
               Metric("beside", "old workers beside new ones", "count")]
    return [
        Case("worker", "SIGKILL of a worker", metrics,
             [subject("ours", ours(RESTARTS), kill_worker, 3), subject("torchrun", torchrun(RESTARTS), kill_worker, 2),
              subject("ray", driver(RESTARTS), kill_worker, 1)]),
        Case("launcher", "SIGKILL of the launcher (torchrun's agent, Ray's driver); the user starts it again at once", metrics,
             [subject("ours", ours(0), kill_launcher(resume), 3), subject("torchrun", torchrun(0), kill_launcher(torchrun(0)), 2),
              subject("ray", driver(0), kill_launcher(driver(0)), 1)]),
        Case("daemon", "SIGKILL of the node's daemon (traind, the raylet; torchrun's is its launcher); nobody helps ours, Ray's head is started again", metrics,
             [subject("ours", ours(0), kill_traind, 3), subject("ray", driver(0), kill_raylet(ray, driver(0)), 1)]),
    ]
