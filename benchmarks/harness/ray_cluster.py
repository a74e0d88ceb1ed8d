"""A separate Ray head on separate ports, and drivers that use it."""

from __future__ import annotations

import os
import secrets
import socket

from .lab import Lab
from .processes import Child, Failed, Scope

START_TIMEOUT_S = 120.0
CPUS = 130  # more than any measure's workers: they are small and share the machine


def free_ports(count: int) -> list[int]:
    """Return free ports. They are released before Ray binds them: if another process takes one, the start fails visibly."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


def ray_environment(token: str) -> dict[str, str]:
    """Return the environment of every Ray process here: the cluster's token, no usage reports, unbuffered output.

    Ray asks for a token by default. Without one in the environment, it would keep one in the user's home."""
    return {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": token, "RAY_USAGE_STATS_ENABLED": "0",
            "PYTHONUNBUFFERED": "1", "PYTHONWARNINGS": "ignore"}


def new_token() -> str:
    """Return a secret that only this run's cluster and drivers know."""
    return secrets.token_hex(32)


class RayCluster:
    """`ray start --head`: started on first use, ended by its recorded processes."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self._scope: Scope | None = None
        self._address = ""
        self._token = new_token()

    @property
    def scope(self) -> Scope:
        """Return the scope of the head's processes and of the workers that it starts."""
        self.start()
        assert self._scope is not None
        return self._scope

    def start(self) -> None:
        """Start the head, if it does not run yet."""
        if self._scope is not None:
            return
        scope = Scope()
        port, dashboard, agent_http, agent_grpc, metrics = free_ports(5)
        child = scope.start(
            [str(self._lab.ray_python), "-c", "from ray.scripts.scripts import main; main()", "start", "--head",
             f"--port={port}", f"--dashboard-port={dashboard}", f"--dashboard-agent-listen-port={agent_http}",
             f"--dashboard-agent-grpc-port={agent_grpc}", f"--metrics-export-port={metrics}", f"--num-cpus={CPUS}",
             f"--temp-dir={scope.folder / 'r'}", "--disable-usage-stats"], ray_environment(self._token))
        try:
            code = child.wait(START_TIMEOUT_S)
            if code != 0:
                raise Failed("failed", f"ray start ended with {code}: {child.tail(20)}")
        except Failed:
            scope.close()
            raise
        self._scope, self._address = scope, f"127.0.0.1:{port}"

    def warm_up(self) -> None:
        """Start it and do one unmeasured run, because a cluster's first run also waits for its first worker processes."""
        if self._scope is not None:
            return
        self.start()
        with Scope() as scope:
            driver = self.start_driver(scope, "noop", 1)
            code = driver.wait(START_TIMEOUT_S)
            if code != 0:
                raise Failed("failed", f"the first run on a fresh Ray cluster ended with {code}: {driver.describe()}")

    def stop(self) -> None:
        """End the head and everything it started."""
        if self._scope is not None:
            self._scope.close()
            self._scope = None

    def start_driver(self, scope: Scope, mode: str, workers: int, *, extra_env: dict[str, str] | None = None,
                     arguments: list[str] | None = None) -> Child:
        """Start a Ray Train run on this cluster, its driver in `scope`. Its workers belong to the cluster's scope."""
        self.start()
        return scope.start([str(self._lab.ray_python), str(self._lab.programs / "ray_driver.py"), mode,
                            f"--workers={workers}", *(arguments or [])],
                           {**ray_environment(self._token), "RAY_ADDRESS": self._address, **(extra_env or {})})


def start_cold_driver(lab: Lab, scope: Scope, mode: str, workers: int) -> Child:
    """Start a Ray Train run that first starts its own local cluster."""
    cpus = max(workers + 2, os.cpu_count() or 1)
    return scope.start([str(lab.ray_python), str(lab.programs / "ray_driver.py"), mode, f"--workers={workers}",
                        f"--cold={cpus}"], ray_environment(new_token()))
