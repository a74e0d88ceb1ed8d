"""The launcher with thousands of daemons: real TCP on loopback, with all daemons' ends in one process.

Each node has one worker, but no process is started for it. Other controllers cannot be compared in this way.
"""

from __future__ import annotations

import json
import resource
import secrets
import time

from harness.cases import Case, Goal, Metric, Subject
from harness.lab import Lab
from harness.options import Options
from harness.processes import Child, Failed, Scope
from harness.ray_cluster import RayCluster

from measures.memory import pss_mib

FILES_PER_NODE = 1
FILES_BESIDE = 200
PORT = 17070
READY_TIMEOUT_S = 60.0
SETTLE_S = 5.0
WINDOW_S = 20.0
MIB = 1024.0


def address(index: int) -> str:
    """Return the address of daemon `index`, in 127.0.0.0/8."""
    return f"127.{1 + index // 62500}.{index // 250 % 250}.{1 + index % 250}:{PORT}"


def start_launcher(lab: Lab, scope: Scope, nodes: int, silent: bool, token: str) -> Child:
    """Start `train-run` with a run that takes all of the daemons."""
    hosts = scope.folder / "hosts"
    hosts.write_text("".join(f"{address(index)}\n" for index in range(nodes)), encoding="ascii")
    spec = {
        "name": "bench",
        "command": ["true"],
        "scaling_config": {"num_workers": nodes},
        "run_config": {"storage_path": str(scope.folder / "runs"),
                       "failure_config": {"node_suspect_after": "20m", "node_dead_after": "30m"} if silent else {}},
    }
    path = scope.folder / "job.yaml"
    path.write_text(json.dumps(spec), encoding="utf-8")
    return scope.start([str(lab.train_run), "--hosts-file", str(hosts), "--token-file", token, str(path)])


def cpu_s(pid: int) -> float:
    """Return the user and system time of a process so far."""
    fields = open(f"/proc/{pid}/stat", encoding="ascii").read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / 100


def make_token(scope: Scope) -> str:
    """Make a new token in a file that only we can read."""
    path = scope.folder / "token"
    path.touch(mode=0o600)
    path.write_text(secrets.token_hex(32), encoding="ascii")
    return str(path)


def with_daemons(lab: Lab, nodes: int, silent: bool = False) -> dict[str, float]:
    """Return the seconds until all have joined and all have started, the share of a core after that, and the memory.

    The launcher sends each daemon a heartbeat per second; silent ones do not answer it."""
    with Scope() as scope:
        token = make_token(scope)
        daemons = scope.start([str(lab.program("many_daemons")), str(PORT), str(nodes),
                               *(["silent"] if silent else []), "token", token])
        scope.wait_events(daemons, "listening", 1, READY_TIMEOUT_S)
        launcher = start_launcher(lab, scope, nodes, silent, token)
        joined = scope.wait_events(daemons, "joined", 1, READY_TIMEOUT_S)[0].at_ns
        join_cpu = cpu_s(launcher.pid)
        started = scope.wait_events(daemons, "started", 1, READY_TIMEOUT_S)[0].at_ns
        time.sleep(SETTLE_S)
        used, since = cpu_s(launcher.pid), time.monotonic()
        time.sleep(WINDOW_S)
        share = (cpu_s(launcher.pid) - used) / (time.monotonic() - since)
        if not launcher.running():
            raise Failed("failed", f"the launcher ended: {launcher.describe()}")
        return {"joined": (joined - launcher.started_ns) / 1e9, "started": (started - launcher.started_ns) / 1e9, "join_cpu": join_cpu,
                "cpu": 100 * share, "pss": pss_mib(launcher.pid)}


def measured(lab: Lab, nodes: int) -> dict[str, float]:
    """Return the same, and the memory that a node adds to a launcher with one node."""
    alone = with_daemons(lab, 1)["pss"]
    values = with_daemons(lab, nodes)
    values["cpu_one_way"] = with_daemons(lab, nodes, silent=True)["cpu"]
    values["per_node"] = (values.pop("pss") - alone) * MIB / nodes
    return values


def cases(lab: Lab, options: Options, ray: RayCluster) -> list[Case]:
    """Return one case, as large as the limit of open files allows."""
    del options, ray
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    nodes = 10_000
    missing = lab.missing(lab.train_run, lab.program("many_daemons"))
    if limit < nodes * FILES_PER_NODE + FILES_BESIDE:
        missing = f"only {limit} open files are allowed here (ulimit -n)"
    return [Case(
        "daemons", f"train-run beside {nodes:,} daemons (TLS on loopback)",
        [Metric("joined", "all joined"),
         Metric("join_cpu", "CPU until all joined", goal=Goal(at_most=6.0)),
         Metric("started", "all told to start"),
         Metric("cpu_one_way", "heartbeats, one way: share of a core", "%", goal=Goal(at_most=10.0)),
         Metric("cpu", "heartbeats and their answers: share of a core", "%"),
         Metric("per_node", "memory a daemon (PSS)", "KiB", goal=Goal(at_most=28.0))],
        [Subject("ours", lambda: measured(lab, nodes), lab.count(1, 3), missing)])]
