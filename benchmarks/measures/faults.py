"""The same faults for all: SIGKILL of a worker, of the launcher, or of the node's daemon, while two workers step every 20 ms.

Ours reports each step through the SDK, also during the outage, and we count the reports that metrics.jsonl lacks at the
end. "ours, together" agrees after each step by a collective through the launcher, so that it cannot step without one.
torchrun's workers are the same program, whose reports the SDK then prints. Ray's do not report, because its report()
waits for the controller's next poll, 2 s apart.

Nobody helps after a worker's death. After the launcher's death, and that of Ray's daemon, the harness immediately does what
a user would do: `train-run resume RUN`, or the same command again.
"""

from __future__ import annotations

import json
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

# kills something and helps; returns the command to wait for, and when it was typed again, if it was
Fault = Callable[[Scope, Child, list[Event]], tuple[Child, int | None]]


def now_ns() -> int:
    return time.monotonic_ns()


def steps_of(scope: Scope) -> list[Event]:
    return [event for event in scope.events() if event.name == "step"]


def without_step_s(steps: list[Event], killed_ns: int) -> float:
    """Return the longest time after the kill in which some rank had no step, in any of its processes."""
    longest = 0.0
    for rank in range(WORKERS):
        times = sorted(step.at_ns for step in steps if step.rank == rank)
        first = max(index for index, at_ns in enumerate(times) if at_ns <= killed_ns)
        longest = max([longest, *((b - a) / 1e9 for a, b in zip(times[first:], times[first + 1:]))])
    return longest


def new_group_ns(steps: list[Event], old: set[int]) -> int | None:
    """Return when the last rank of new processes had its first step, if there are any."""
    first: dict[int, int] = {}
    for step in steps:
        if step.pid not in old:
            first[step.rank] = min(step.at_ns, first.get(step.rank, step.at_ns))
    return max(first.values()) if first else None


def lost_reports(scope: Scope) -> float:
    """Count the steps that were reported but are not in the run's metrics.jsonl."""
    kept: dict[int, set[tuple[int, int]]] = {rank: set() for rank in range(WORKERS)}
    for line in (run_folder(scope) / "metrics.jsonl").read_text(encoding="utf-8").splitlines():
        report = json.loads(line)
        kept[report["rank"]].add((report["attempt"], report["report_seq"]))
    steps = steps_of(scope)
    return float(sum(max(0, sum(step.rank == rank for step in steps) - len(kept[rank])) for rank in kept))


def stepping_again(scope: Scope, old: set[int]) -> bool:
    """Return whether each rank has a step from a new process."""
    return {step.rank for step in steps_of(scope) if step.pid not in old} == set(range(WORKERS))


def sample(lab: Lab, start: Callable[[Scope], Child], fault: Fault, is_ours: bool) -> dict[str, float]:
    with Scope() as scope:
        scope.hold()
        child = start(scope)
        ready = scope.wait_events(child, "step", WORKERS, READY_TIMEOUT_S)
        old = {event.pid for event in ready}
        killed_ns = now_ns()
        child, typed_ns = fault(scope, child, ready)
        time.sleep(CALM_S)
        if not is_ours and not scope.wait_until(lambda: stepping_again(scope, old), lab.hang_s):  # ours may keep its workers
            raise Failed("hung", f"no new workers stepped after {lab.hang_s:.0f} s: {child.describe()}")
        scope.wait_events(child, "step", WORKERS, lab.hang_s, after_ns=now_ns())
        steps = steps_of(scope)
        started = {step.pid for step in steps} - old
        values = {"still": without_step_s(steps, killed_ns), "started": float(len(started)),
                  "beside": float(sum(alive(pid) for pid in old) if started else 0)}
        again_ns = new_group_ns(steps, old)
        if again_ns is not None:
            values["again"] = (again_ns - killed_ns) / 1e9
            if typed_ns is not None:
                values["typed"] = (again_ns - typed_ns) / 1e9
        scope.release()
        code = child.wait(END_TIMEOUT_S)
        if code != 0:
            raise Failed("failed", f"training went on, but the command ended with {code}: {child.describe()}")
        if is_ours:
            values["lost"] = lost_reports(scope)
        return values


def kill_worker(scope: Scope, child: Child, ready: list[Event]) -> tuple[Child, None]:
    del scope
    os.kill(next(event.pid for event in ready if event.rank == 1), signal.SIGKILL)
    return child, None


def kill_launcher(again: Callable[[Scope], Child]) -> Fault:
    def fault(scope: Scope, child: Child, ready: list[Event]) -> tuple[Child, int]:
        del ready
        child.kill(signal.SIGKILL)
        child.wait(END_TIMEOUT_S)
        typed_ns = now_ns()
        return again(scope), typed_ns
    return fault


def pids_of(scope: Scope, word: str) -> list[int]:
    """Return the processes of a scope whose command line begins with a program of this name."""
    found = []
    for pid in scope.pids():
        try:
            command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if Path(command[0].decode(errors="replace")).name == word and b"supervise" not in command:
            found.append(pid)
    return found


def kill_traind(scope: Scope, child: Child, ready: list[Event]) -> tuple[Child, None]:
    del ready
    pids = pids_of(scope, "traind")
    if len(pids) != 1:
        raise Failed("failed", f"one traind was expected, there are {pids}")
    os.kill(pids[0], signal.SIGKILL)
    return child, None


def kill_raylet(ray: RayCluster, again: Callable[[Scope], Child]) -> Fault:
    def fault(scope: Scope, child: Child, ready: list[Event]) -> tuple[Child, int]:
        del ready
        for pid in pids_of(ray.scope, "raylet"):
            os.kill(pid, signal.SIGKILL)
        # The rest of the cluster is useless: a user stops it and starts a new one.
        child.kill(signal.SIGKILL)
        ray.stop()
        typed_ns = now_ns()
        return again(scope), typed_ns
    return fault


def cases(lab: Lab, options: Options, ray: RayCluster) -> list[Case]:
    """Return one case per fault."""
    del options
    program = str(lab.program("stepper"))

    def ours(restarts: int, *arguments: str) -> Callable[[Scope], Child]:
        return lambda scope: start_ours(lab, scope, [program, *arguments], WORKERS, max_failures=restarts)

    def resume(scope: Scope) -> Child:
        return scope.start([str(lab.train_run), "resume", str(run_folder(scope))])

    def torchrun(restarts: int) -> Callable[[Scope], Child]:
        return lambda scope: start_torchrun(lab, scope, [program], WORKERS, max_restarts=restarts)

    def driver(restarts: int) -> Callable[[Scope], Child]:
        return lambda scope: ray.start_driver(scope, "step", WORKERS, arguments=[f"--max-failures={restarts}"])

    def subject(name: str, start: Callable[[Scope], Child], fault: Fault) -> Subject:
        is_ours = name.startswith("ours")
        needed = (lab.train_run, lab.program("stepper")) if is_ours else {
            "torchrun": (lab.torch_python, lab.program("stepper")), "ray": (lab.ray_python,)}[name]

        def take() -> dict[str, float]:
            if name == "ray":
                ray.warm_up()
            return sample(lab, start, fault, is_ours)
        return Subject(name, take, lab.count(3 if name == "ray" else 5, 10), lab.missing(*needed))

    metrics = [Metric("still", "longest time without a step of a rank"), Metric("again", "kill → first step of new workers"),
               Metric("typed", "command typed again → first step of new workers"),
               Metric("started", "workers started again", "count"), Metric("beside", "old workers beside new ones", "count"),
               Metric("lost", "reports that are not in metrics.jsonl", "count")]
    return [
        Case("worker", "SIGKILL of a worker", metrics,
             [subject("ours", ours(RESTARTS), kill_worker), subject("torchrun", torchrun(RESTARTS), kill_worker),
              subject("ray", driver(RESTARTS), kill_worker)]),
        Case("launcher", "SIGKILL of the launcher (torchrun's agent, Ray's driver); the user starts it again at once", metrics,
             [subject("ours", ours(0), kill_launcher(resume)), subject("ours, together", ours(0, "together"), kill_launcher(resume)),
              subject("torchrun", torchrun(0), kill_launcher(torchrun(0))), subject("ray", driver(0), kill_launcher(driver(0)))]),
        Case("daemon", "SIGKILL of the node's daemon (traind, the raylet; torchrun's is its launcher); nobody helps ours, Ray's head is started again", metrics,
             [subject("ours", ours(0), kill_traind), subject("ours, together", ours(0, "together"), kill_traind),
              subject("ray", driver(0), kill_raylet(ray, driver(0)))]),
    ]
