"""An S3 store (moto, on this machine): the cost of an upload compared with one plain stream, and its cost to the training.

moto runs on the same cores as its clients, and needs most of one core for some 35 MiB/s, because it is Python. Each sample
of `upload` puts the same file once the client is connected. In `step`, a worker of one thread does the same arithmetic with
and without 64 MiB of state every 100 steps. `plain client` is the control: a thread of the worker writes the same bytes as
the SDK does, and a process with only a stream of Arrow's S3 filesystem sends them to the same server. The remaining
difference is what trainrun adds. In `…, server below`, the server has niceness 19, as if it were on another machine, except
for caches and memory.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
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


@dataclass(frozen=True)
class Store:
    """A server, and what a program needs to reach it."""

    server: Child
    environment: dict[str, str]

    def cpu_s(self) -> float:
        """Return the processor time that the server has used so far."""
        fields = Path(f"/proc/{self.server.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def start_store(lab: Lab, scope: Scope, niceness: int = 0) -> Store:
    rules = scope.folder / "rules"
    rules.write_text("[]", encoding="ascii")
    server = scope.start(["nice", "-n", str(niceness), str(lab.tools_python), str(ROOT / "tests" / "e2e" / "programs" / "s3_server.py"), str(rules)])
    if not scope.wait_until(lambda: "\n" in server.output.read_text(encoding="utf-8"), LIMIT_S):
        raise Failed("failed", f"the S3 server did not start: {server.describe()}")
    url = server.output.read_text(encoding="utf-8").split("\n")[0]
    return Store(server, {"AWS_ENDPOINT_URL": url, "AWS_ACCESS_KEY_ID": "bench", "AWS_SECRET_ACCESS_KEY": "bench",
                          "AWS_REGION": "us-east-1"})


def ended(child: Child) -> Child:
    code = child.wait(LIMIT_S)
    if code != 0:
        raise Failed("failed", f"ended with {code}: {child.describe()}")
    return child


def upload(lab: Lab, how: str) -> dict[str, float]:
    with Scope() as scope:
        environment = start_store(lab, scope).environment
        file = scope.folder / "staged" / "state.bin"
        file.parent.mkdir()
        with open(file, "wb") as state:
            for _ in range(UPLOAD_MIB):
                state.write(os.urandom(1 << 20))
        child = ended(scope.start([str(lab.program("s3_upload")), how, URL, str(file)], environment))
        took = float(child.output.read_text(encoding="utf-8"))
        return {"took": took, "rate": UPLOAD_MIB / took}


def step(lab: Lab, every: int, niceness: int = 0, plain: bool = False) -> dict[str, float]:
    with Scope() as scope:
        store = start_store(lab, scope, niceness)
        ready = scope.folder / "ready"
        if plain:
            ready.mkdir()
            client = scope.start([str(lab.program("s3_upload")), "follow", URL, str(ready)], store.environment)
        command = [str(lab.program("step_worker")), str(STEPS), str(every), str(STATE_MIB), str(scope.folder),
                   *(["plain"] if plain else [])]
        spec = {"name": "bench", "command": command, "scaling_config": {"num_workers": 1},
                "run_config": {"storage_path": URL, "checkpoint_config": {"num_to_keep": 2}}}
        path: Path = scope.folder / "job.yaml"
        path.write_text(json.dumps(spec), encoding="utf-8")
        idle = store.cpu_s()
        ended(scope.start([str(lab.train_run), str(path)], store.environment))
        # A run ends after its last upload, so the control's must have ended, too.
        if plain and not scope.wait_until(lambda: not any(ready.iterdir()), LIMIT_S):
            raise Failed("hung", f"the plain client has not uploaded all: {client.describe()}")
        mean, supervisor = (scope.folder / "step").read_text(encoding="ascii").split()[:2]
        return {"step": float(mean) / 1e9, "beside": float(mean) / 1e9, "supervisor": float(supervisor) / 1e9,
                "server": store.cpu_s() - idle}


def cases(lab: Lab, options: Options, ray: RayCluster) -> list[Case]:
    """Return the cases: an upload of 512 MiB, and steps during uploads."""
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
             [Metric("step", "mean step", goal=Goal(times_better=("without", 1 / 1.05))),
              Metric("beside", "mean step, beside a plain client's", goal=Goal(times_better=("plain client", 1 / 1.05))),
              Metric("supervisor", "processor time of the supervisor"), Metric("server", "processor time of the server")],
             [Subject("ours", lambda: step(lab, EVERY), count, missing),
              Subject("plain client", lambda: step(lab, EVERY, plain=True), count, missing),
              Subject("without", lambda: step(lab, 0), count, missing),
              Subject("ours, server below", lambda: step(lab, EVERY, 19), count, missing),
              Subject("plain client, server below", lambda: step(lab, EVERY, 19, plain=True), count, missing)]),
    ]
