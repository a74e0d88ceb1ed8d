"""An S3 store (moto, on this machine): what an upload costs beside one plain stream, and what it costs the training.

moto runs on the same cores as what it serves. Of `upload` each sample puts the same file once the client is connected;
of `step` a worker of one thread does the same arithmetic with and without a checkpoint of 64 MiB every 100 steps.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from harness.cases import Case, Goal, Metric, Subject
from harness.lab import ROOT, Lab
from harness.options import Options
from harness.processes import Child, Failed, Scope
from harness.ray_cluster import RayCluster

UPLOAD_MIB = 256
STEPS, EVERY, STATE_MIB = 400, 100, 64
LIMIT_S = 180.0
URL = "s3://bucket/runs"


def start_store(lab: Lab, scope: Scope) -> dict[str, str]:
    """A server of its own; what a program needs to reach it."""
    rules = scope.folder / "rules"
    rules.write_text("[]", encoding="ascii")
    server = scope.start([str(lab.tools_python), str(ROOT / "tests" / "e2e" / "programs" / "s3_server.py"), str(rules)])
    if not scope.wait_until(lambda: "\n" in server.output.read_text(encoding="utf-8"), LIMIT_S):
        raise Failed("failed", f"the S3 server did not start: {server.describe()}")
    url = server.output.read_text(encoding="utf-8").split("\n")[0]
    return {"AWS_ENDPOINT_URL": url, "AWS_ACCESS_KEY_ID": "bench", "AWS_SECRET_ACCESS_KEY": "bench",
            "AWS_REGION": "us-east-1", "XDG_STATE_HOME": str(scope.folder / "state")}


def ended(child: Child) -> Child:
    code = child.wait(LIMIT_S)
    if code != 0:
        raise Failed("failed", f"ended with {code}: {child.describe()}")
    return child


def upload(lab: Lab, how: str) -> dict[str, float]:
    with Scope() as scope:
        environment = start_store(lab, scope)
        file = scope.folder / "staged" / "state.bin"
        file.parent.mkdir()
        with open(file, "wb") as state:
            for _ in range(UPLOAD_MIB):
                state.write(os.urandom(1 << 20))
        child = ended(scope.start([str(lab.program("s3_upload")), how, URL, str(file)], environment))
        took = float(child.output.read_text(encoding="utf-8"))
        return {"took": took, "rate": UPLOAD_MIB / took}


def step(lab: Lab, every: int) -> dict[str, float]:
    with Scope() as scope:
        environment = start_store(lab, scope)
        command = [str(lab.program("step_worker")), str(STEPS), str(every), str(STATE_MIB), str(scope.folder)]
        spec = {"name": "bench", "command": command, "scaling_config": {"num_workers": 1},
                "run_config": {"storage_path": URL, "checkpoint_config": {"num_to_keep": 2}}}
        path: Path = scope.folder / "job.yaml"
        path.write_text(json.dumps(spec), encoding="utf-8")
        ended(scope.start([str(lab.train_run), str(path)], environment))
        return {"step": float((scope.folder / "step").read_text(encoding="ascii").split()[0]) / 1e9}


def cases(lab: Lab, options: Options, ray: RayCluster) -> list[Case]:
    """512 MiB up, and steps meanwhile."""
    del options, ray
    missing = lab.missing(lab.tools_python, lab.program("s3_upload"), lab.program("step_worker"))
    count = lab.count(1, 5)
    return [
        Case("upload", f"{UPLOAD_MIB} MiB into S3 (moto)",
             [Metric("took", "seconds"), Metric("rate", "MiB a second", "count", higher_is_better=True,
                                               goal=Goal(times_better=("plain", 0.9)))],
             [Subject("ours", lambda: upload(lab, "ours"), count, missing),
              Subject("plain", lambda: upload(lab, "plain"), count, missing)]),
        Case("step", f"A step, with a checkpoint of {STATE_MIB} MiB into S3 (moto) every {EVERY} steps and without",
             [Metric("step", "mean step", goal=Goal(times_better=("without", 1 / 1.05)))],
             [Subject("ours", lambda: step(lab, EVERY), count, missing),
              Subject("without", lambda: step(lab, 0), count, missing)]),
    ]
