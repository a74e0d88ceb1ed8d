"""A random search whose trials do nothing: the cost of a trial to whoever searches.

Ours: the whole command, from its start to its end; each trial is a run, with a journal and a controller of its own, and its
worker is a process. Ray Tune: `Tuner.fit()` alone, in a cluster that is up; its trials are actors, which run a function.
"""

from __future__ import annotations

import json

from harness.cases import Case, Goal, Metric, Subject
from harness.lab import Lab
from harness.options import Options
from harness.processes import Child, Failed, Scope
from harness.ray_cluster import RayCluster, new_token, ray_environment

AT_ONCE = 2
TIMEOUT_S = 300.0


def ended_well(child: Child) -> None:
    """Wait for the command's end."""
    code = child.wait(TIMEOUT_S)
    if code != 0:
        raise Failed("failed", f"ended with {code}: {child.describe()}")


def ours(lab: Lab, trials: int) -> dict[str, float]:
    """Return the trials per second of `train-run sweep`."""
    with Scope() as scope:
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
        child = scope.start([str(lab.train_run), "sweep", str(path)])
        ended_well(child)
        ran = sum(1 for event in scope.events() if event.name == "first_line")
        if ran != trials or child.ended_ns is None:
            raise Failed("failed", f"{ran} of {trials} trials ran: {child.describe()}")
        return {"trials": trials / ((child.ended_ns - child.started_ns) / 1e9)}


def ray_tune(lab: Lab, trials: int) -> dict[str, float]:
    """Return the trials per second of Tuner.fit()."""
    with Scope() as scope:
        script = lab.programs / "sweep_ray.py"
        child = scope.start([str(lab.ray_python), str(script), str(trials), str(AT_ONCE), str(scope.folder / "tune")],
                            ray_environment(new_token()))
        ended_well(child)
        at = {event.name: event.at_ns for event in scope.events()}
        return {"trials": trials / ((at["fitted"] - at["ready"]) / 1e9)}


def cases(lab: Lab, options: Options, ray: RayCluster) -> list[Case]:
    """Return the case of trials that do nothing."""
    trials = lab.count(20, 40)
    return [Case(
        "sweep-noop", f"{trials} trials that do nothing, {AT_ONCE} at once",
        [Metric("trials", "trials per second", unit="1/s", higher_is_better=True,
                goal=Goal(times_better=("ray", 2.0)))],
        [
            Subject("ours", lambda: ours(lab, trials), lab.count(3, 5),
                    lab.missing(lab.train_run, lab.program("first_line"))),
            Subject("ray", lambda: ray_tune(lab, trials), lab.count(2, 3), lab.missing(lab.ray_python)),
        ])]
