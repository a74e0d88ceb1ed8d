"""Starts the processes of one sample in their own folder, finds them whatever happens to their parents, and ends them.

Everything that a Scope starts inherits the environment variable TRAINRUN_BENCH_SCOPE with a unique value. The scope finds
its processes by that mark in /proc/*/environ, including daemons and orphans. It adds their descendants (a worker of Ray
overwrites its environment with its title) and the processes that it found before. It never looks for or kills a process
by name.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
import tempfile
import time
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Callable

MARK = "TRAINRUN_BENCH_SCOPE"
END_GRACE_S = 3.0  # between SIGTERM and SIGKILL when a scope closes
POLL_S = 0.003     # interval for checking files; times come from the workers' own clocks


class Failed(Exception):
    """A sample gave no figure. `kind` is "hung" (a deadline passed) or "failed" (it ended in a wrong way)."""

    def __init__(self, kind: str, why: str) -> None:
        super().__init__(why)
        self.kind = kind


@dataclass(frozen=True)
class Event:
    """One line of the event file: see programs/events.h."""

    name: str
    rank: int
    pid: int
    at_ns: int


@dataclass(frozen=True)
class ProcessStat:
    """Values of /proc/<pid>/stat: the parent, the state, and the start, which reveals a reused pid."""

    parent: int
    state: str
    start: int


def process_stat(pid: int) -> ProcessStat | None:
    """Read one process's stat. Return nothing if it is gone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()
    return ProcessStat(parent=int(fields[1]), state=fields[0], start=int(fields[19]))


def alive(pid: int) -> bool:
    """Return whether the process exists and is no zombie."""
    stat = process_stat(pid)
    return stat is not None and stat.state not in "ZX"


class Child:
    """A command that a scope started, in its own session, with its output in a file."""

    def __init__(self, argv: list[str], env: dict[str, str], folder: Path, output: Path) -> None:
        self.argv = argv
        self.output = output
        with open(output, "ab") as sink:
            self.started_ns = time.monotonic_ns()
            # Not a context manager: Scope.close() ends and reaps it.
            self._process = subprocess.Popen(argv, env=env, cwd=folder, stdin=subprocess.DEVNULL, stdout=sink,
                                             stderr=subprocess.STDOUT, start_new_session=True)
        self._pidfd = os.pidfd_open(self._process.pid)
        self.pid = self._process.pid
        self.ended_ns: int | None = None

    def wait(self, timeout_s: float) -> int:
        """Wait for the end (within microseconds; subprocess's own wait() polls). Return the exit code."""
        if self.ended_ns is None:
            ready, _, _ = select.select([self._pidfd], [], [], max(0.0, timeout_s))
            if not ready:
                raise Failed("hung", f"still running after {timeout_s:.0f} s: {self.describe()}")
            self.ended_ns = time.monotonic_ns()
            self._process.wait()
            os.close(self._pidfd)
        return self._process.returncode

    def running(self) -> bool:
        """Return whether it still runs."""
        try:
            self.wait(0)
        except Failed:
            return True
        return False

    def kill(self, number: signal.Signals) -> int:
        """Signal only this process. Return the time just before."""
        now = time.monotonic_ns()
        signal.pidfd_send_signal(self._pidfd, number)
        return now

    def tail(self, lines: int = 6) -> str:
        """Return the last lines of its output."""
        text = self.output.read_text(encoding="utf-8", errors="replace")
        return "\n".join(text.splitlines()[-lines:])

    def describe(self) -> str:
        """Return the command and its last output, for an error message."""
        return f"{' '.join(self.argv)}\n{self.tail()}"


class Scope:
    """The processes, files and events of one sample. Use it with `with`: leaving it ends all processes."""

    def __init__(self) -> None:
        self.id = uuid.uuid4().hex
        # Keep the path short: paths of Unix sockets below it are limited to 107 bytes.
        self.folder = Path(tempfile.mkdtemp(prefix="trb-", dir="/tmp"))
        self.events_path = self.folder / "events"
        self.hold_path = self.folder / "hold"
        self._children: list[Child] = []
        self._known: dict[int, int] = {}  # pid → start, of all processes found so far

    def __enter__(self) -> "Scope":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def environment(self, extra: dict[str, str] | None = None) -> dict[str, str]:
        """Return this process's environment, the scope's mark, and where workers and launchers write."""
        env = {key: value for key, value in os.environ.items() if not key.startswith(("RAY_", "TRAINRUN_", "TORCHELASTIC_"))}
        env.update({MARK: self.id, "BENCH_EVENTS": str(self.events_path), "BENCH_HOLD": str(self.hold_path),
                    "BENCH_FOLDER": str(self.folder), "TMPDIR": str(self.folder),
                    "XDG_STATE_HOME": str(self.folder / "state"), "OMP_NUM_THREADS": "1"})
        env.update(extra or {})
        return env

    def start(self, argv: list[str], extra_env: dict[str, str] | None = None) -> Child:
        """Start a command in the scope's folder."""
        output = self.folder / f"output-{len(self._children)}"
        child = Child([str(part) for part in argv], self.environment(extra_env), self.folder, output)
        self._children.append(child)
        return child

    def hold(self) -> None:
        """Make workers that start from now on stay until they are killed."""
        self.hold_path.touch()

    def release(self) -> None:
        """Make workers that start from now on end by themselves."""
        self.hold_path.unlink(missing_ok=True)

    def events(self) -> list[Event]:
        """Return all events so far."""
        try:
            lines = self.events_path.read_text(encoding="ascii").splitlines()
        except FileNotFoundError:
            return []
        return [Event(name, int(rank), int(pid), int(at_ns)) for name, rank, pid, at_ns in map(str.split, lines)]

    def wait_events(self, child: Child, name: str, ranks: int, timeout_s: float, after_ns: int = 0) -> list[Event]:
        """Wait until `ranks` different ranks have had the event after `after_ns`. Return the latest one of each rank.

        Raises Failed when the time is over, or if the child has ended without them."""
        deadline = time.monotonic() + timeout_s
        while True:
            running = child.running()  # check before the events: a child that has ended wrote all of them
            latest = {event.rank: event for event in self.events() if event.name == name and event.at_ns > after_ns}
            if len(latest) >= ranks:
                return list(latest.values())
            if not running:
                raise Failed("failed", f"ended with {child.wait(0)} after {len(latest)} of {ranks} ranks had "
                                       f"{name}: {child.describe()}")
            if time.monotonic() > deadline:
                raise Failed("hung", f"{len(latest)} of {ranks} ranks had {name} after {timeout_s:.0f} s: "
                                     f"{child.describe()}")
            time.sleep(POLL_S)

    def pids(self) -> set[int]:
        """Return all living processes of this scope."""
        stats = {}
        for entry in os.scandir("/proc"):
            stat = process_stat(int(entry.name)) if entry.name.isdigit() else None
            if stat is not None and stat.state not in "ZX":
                stats[int(entry.name)] = stat
        mine = {pid for pid, stat in stats.items() if self._known.get(pid) == stat.start or self._is_marked(pid)}
        grown = True
        while grown:
            children = {pid for pid, stat in stats.items() if stat.parent in mine} - mine
            mine |= children
            grown = bool(children)
        mine.discard(os.getpid())
        self._known.update({pid: stats[pid].start for pid in mine})
        return mine

    def _is_marked(self, pid: int) -> bool:
        try:
            environment = Path(f"/proc/{pid}/environ").read_bytes()
        except OSError:
            return False  # it has gone, or belongs to another user
        return f"{MARK}={self.id}".encode() in environment.split(b"\0")

    def wait_until(self, condition: Callable[[], bool], timeout_s: float) -> bool:
        """Wait for a condition. Return whether it held in time."""
        deadline = time.monotonic() + timeout_s
        while not condition():
            if time.monotonic() > deadline:
                return False
            time.sleep(0.02)
        return True

    def close(self) -> None:
        """End every process of the scope (SIGTERM, then SIGKILL), reap the children, and remove the folder."""
        for number, grace_s in ((signal.SIGTERM, END_GRACE_S), (signal.SIGKILL, END_GRACE_S)):
            for pid in self.pids():
                try:
                    os.kill(pid, number)
                except ProcessLookupError:
                    pass
            if self.wait_until(self._all_ended, grace_s):
                break
        left = self.pids()
        if left:
            raise RuntimeError(f"processes {sorted(left)} survived SIGKILL; their folder {self.folder} is kept")
        shutil.rmtree(self.folder, ignore_errors=True)

    def _all_ended(self) -> bool:
        children_running = [child for child in self._children if child.running()]
        return not children_running and not self.pids()
