"""Launch → first line of user code: from just before the start of the command to the last rank's first line.

No-op workers are C++ programs that only tell the time (Ray's are Python functions, since it has no others). Torch workers
write their first line when LibTorch is loaded, and another one when the group has joined over gloo.
"""

from __future__ import annotations

from harness.cases import Case, Goal, Metric, Subject
from harness.commands import start_bare, start_ours, start_torchrun
from harness.lab import Lab
from harness.options import Options
from harness.processes import Child, Failed, Scope
from harness.ray_cluster import RayCluster, start_cold_driver

END_TIMEOUT_S = 60.0
FEW_WORKERS = 8  # up to here we measure all subjects


class Launches:
    """The samples with one number of workers."""

    def __init__(self, lab: Lab, ray: RayCluster, workers: int) -> None:
        self._lab, self._ray, self._workers = lab, ray, workers
        # 64 Python workers on a small machine take a minute to import.
        self._limit_s = lab.hang_s + 2.0 * workers

    def _since(self, scope: Scope, child: Child, names: list[str]) -> dict[str, float]:
        """Return the seconds from the start to each event's last rank. The command must then end with 0."""
        times = {}
        for name in names:
            events = scope.wait_events(child, name, self._workers, self._limit_s)
            times[name] = (max(event.at_ns for event in events) - child.started_ns) / 1e9
        code = child.wait(END_TIMEOUT_S)
        if code != 0:
            raise Failed("failed", f"ended with {code} after its workers had ended with 0: {child.describe()}")
        return times

    def bare(self, program: str, *arguments: str) -> dict[str, float]:
        with Scope() as scope:
            children = start_bare(scope, [str(self._lab.program(program)), *arguments], self._workers)
            for child in children:
                child.wait(self._limit_s)
            events = scope.wait_events(children[0], "first_line", self._workers, 0)
            return {"first_line": (max(event.at_ns for event in events) - children[0].started_ns) / 1e9}

    def ours(self, command: list[str], names: list[str]) -> dict[str, float]:
        with Scope() as scope:
            return self._since(scope, start_ours(self._lab, scope, command, self._workers), names)

    def torchrun(self, command: list[str], names: list[str], python: bool) -> dict[str, float]:
        with Scope() as scope:
            return self._since(scope, start_torchrun(self._lab, scope, command, self._workers, python=python), names)

    def ray_warm(self, mode: str, names: list[str]) -> dict[str, float]:
        self._ray.warm_up()
        with Scope() as scope:
            return self._since(scope, self._ray.start_driver(scope, mode, self._workers), names)

    def ray_cold(self, mode: str, names: list[str]) -> dict[str, float]:
        with Scope() as scope:
            return self._since(scope, start_cold_driver(self._lab, scope, mode, self._workers), names)


def noop_case(lab: Lab, ray: RayCluster, workers: int) -> Case:
    """Return the case of no-op workers: the cost of the launchers themselves."""
    launches = Launches(lab, ray, workers)
    program, names = lab.program("first_line"), ["first_line"]
    many = workers > FEW_WORKERS
    goal = Goal(at_most=0.3) if many else Goal(at_most=0.03, times_better=("torchrun", 40.0))
    ray_takes_minutes = many and lab.quick  # its workers are Python
    return Case(
        f"noop-{workers}", f"Launch → first line of the last of {workers} no-op workers"
        + (" (Ray's take minutes: in a full run only)" if ray_takes_minutes else ""),
        [Metric("first_line", "first line", goal=goal)],
        [
            Subject("bare", lambda: launches.bare("first_line"), lab.count(5, 10), lab.missing(program)),
            Subject("ours", lambda: launches.ours([str(program)], names), lab.count(10, 20),
                    lab.missing(lab.train_run, program)),
            Subject("torchrun", lambda: launches.torchrun([str(program)], names, python=False),
                    5 if many else lab.count(5, 10), lab.missing(lab.torch_python, program)),
            *([] if ray_takes_minutes else [Subject("ray-warm", lambda: launches.ray_warm("noop", names),
                                                    1 if many else lab.count(3, 5), lab.missing(lab.ray_python))]),
            *([] if many else [Subject("ray-cold", lambda: launches.ray_cold("noop", names), 3,
                                       lab.missing(lab.ray_python))]),
        ])


def torch_case(lab: Lab, ray: RayCluster, workers: int) -> Case:
    """Return the case of workers that load LibTorch and join a group over gloo."""
    launches = Launches(lab, ray, workers)
    program, script = lab.program("torch_worker"), str(lab.programs / "torch_worker.py")
    names = ["first_line", "joined"]
    return Case(
        f"torch-{workers}", f"Launch → first line of the last of {workers} torch workers",
        [Metric("first_line", "first line, LibTorch loaded", goal=Goal(over_bare=0.05)), Metric("joined", "gloo joined")],
        [
            Subject("bare", lambda: launches.bare("torch_worker", "load"), lab.count(5, 10), lab.missing(program)),
            Subject("ours", lambda: launches.ours([str(program)], names), lab.count(5, 10),
                    lab.missing(lab.train_run, program)),
            Subject("ours, python", lambda: launches.ours([str(lab.torch_python), script], names), 5,
                    lab.missing(lab.train_run, lab.torch_python)),
            Subject("torchrun", lambda: launches.torchrun([script], names, python=True), lab.count(5, 7),
                    lab.missing(lab.torch_python)),
            Subject("torchrun, C++", lambda: launches.torchrun([str(program)], names, python=False),
                    lab.count(5, 7), lab.missing(lab.torch_python, program)),
            Subject("ray-warm", lambda: launches.ray_warm("torch", names), lab.count(3, 5), lab.missing(lab.ray_python)),
        ])


def cases(lab: Lab, options: Options, ray: RayCluster) -> list[Case]:
    """Return cases of no-op workers in two world sizes, and of torch workers in one."""
    sizes = sorted(options.workers) or [2, 64]
    made = [noop_case(lab, ray, workers) for workers in sizes]
    made += [torch_case(lab, ray, workers) for workers in sizes if workers <= FEW_WORKERS]
    return made
