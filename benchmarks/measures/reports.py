"""Reports per second until they are stored, with two workers, and the cost of a report() call to the training loop.

The rate is that of one worker: its reports over the time from the first call to the end of the command, when all of them
are in metrics.jsonl (ours; we count the lines), or have reached the controller (Ray, which keeps no file of them; its time
is that of the loop alone, since its report() returns once the controller has the report).
Ray's report() waits for the controller's next poll: 2 s apart by default. "ray-poll-0" sets that interval to 0.
"""

from __future__ import annotations

import statistics
from pathlib import Path

from harness.cases import Case, Goal, Metric, Subject
from harness.commands import run_folder, start_ours
from harness.lab import Lab
from harness.options import Options
from harness.processes import Failed, Scope
from harness.ray_cluster import RayCluster

WORKERS = 2
LIMIT_S = 180.0
POLL_INTERVAL_VARIABLE = "RAY_TRAIN_HEALTH_CHECK_INTERVAL_S"


def read_calls(folder: Path) -> list[float]:
    """Return the seconds of every report() call of all ranks."""
    calls = []
    for rank in range(WORKERS):
        lines = (folder / f"calls-{rank}.txt").read_text(encoding="ascii").split()
        calls += [int(nanoseconds) / 1e9 for nanoseconds in lines]
    return calls


def call_times(calls: list[float]) -> dict[str, float]:
    """Return the median and the 99th percentile."""
    if len(calls) < 2:
        raise Failed("failed", f"only {len(calls)} calls of report() were timed")
    return {"call": statistics.median(calls), "call_p99": statistics.quantiles(calls, n=100, method="inclusive")[98]}


def loop_begin_ns(scope: Scope) -> int:
    """Return when the first worker began to report."""
    return min(event.at_ns for event in scope.events() if event.name == "loop_begins")


def ours(lab: Lab, reports: int, work_us: int) -> dict[str, float]:
    """Let every worker report `reports` times, with `work_us` of work in between."""
    with Scope() as scope:
        child = start_ours(lab, scope, [str(lab.program("report_rate")), str(reports), str(work_us), str(scope.folder)],
                           WORKERS)
        code = child.wait(LIMIT_S)
        if code != 0:
            raise Failed("failed", f"ended with {code}: {child.describe()}")
        with open(run_folder(scope) / "metrics.jsonl", "rb") as file:
            kept = sum(1 for _ in file)
        if kept != reports * WORKERS:
            raise Failed("failed", f"metrics.jsonl has {kept} lines, not {reports * WORKERS}")
        assert child.ended_ns is not None
        return {"rate": reports / ((child.ended_ns - loop_begin_ns(scope)) / 1e9), **call_times(read_calls(scope.folder))}


def ray_train(ray: RayCluster, reports: int, extra_env: dict[str, str]) -> dict[str, float]:
    """Measure the same with Ray Train, on a warm cluster."""
    ray.warm_up()
    with Scope() as scope:
        child = ray.start_driver(scope, "report", WORKERS, extra_env=extra_env, arguments=[f"--reports={reports}"])
        code = child.wait(LIMIT_S)
        if code != 0:
            raise Failed("failed", f"ended with {code}: {child.describe()}")
        ends = [event.at_ns for event in scope.events() if event.name == "loop_ends"]
        return {"rate": reports / ((max(ends) - loop_begin_ns(scope)) / 1e9), **call_times(read_calls(scope.folder))}


def cases(lab: Lab, options: Options, ray: RayCluster) -> list[Case]:
    """Return a case that only reports, and one with a millisecond of work between reports."""
    del options
    ours_missing = lab.missing(lab.train_run, lab.program("report_rate"))
    rate = Metric("rate", "reports a second and worker", "1/s", higher_is_better=True)
    call, call_p99 = Metric("call", "one report() call, median"), Metric("call_p99", "one report() call, p99")
    most, paced = lab.count(100_000, 500_000), lab.count(3_000, 10_000)
    return [
        Case("rate", "Reports through to the launcher's file, 2 workers that only report",
             [Metric(rate.key, rate.title, rate.unit, True, Goal(at_least=50_000)), call, call_p99],
             [Subject("ours", lambda: ours(lab, most, 0), 5, ours_missing),
              Subject("ray", lambda: ray_train(ray, lab.count(6, 10), {}), 3, lab.missing(lab.ray_python)),
              Subject("ray-poll-0", lambda: ray_train(ray, lab.count(500, 2000), {POLL_INTERVAL_VARIABLE: "0"}),
                      3, lab.missing(lab.ray_python))]),
        Case("call", "One report() in a training loop, 2 workers with 1 ms of work between reports",
             [Metric(call.key, call.title, goal=Goal(at_most=3e-6)), Metric(call_p99.key, call_p99.title, goal=Goal(at_most=5e-5))],
             [Subject("ours", lambda: ours(lab, paced, 1000), 5, ours_missing)]),
    ]
