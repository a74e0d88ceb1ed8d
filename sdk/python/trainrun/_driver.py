"""The train-run of a driver: starts it as a child with a socket (docs/driver.md), reads its events, sends it commands."""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket
import subprocess
import sys
import threading
import time
from typing import Any, Optional

from . import _library

_ERRORS_BYTES_MAX = 64 << 10
_LINE_BYTES_MAX = 8 << 20  # of one event


class DriverProcess:
    """send() may be called by any thread; the rest belongs to one."""

    def __init__(self, program: str, words: list[str], show_output: bool) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        self._lock = threading.Lock()  # protects the socket's lifetime against send()
        self._pending, self._errors = b"", b""
        self.over = False
        environment = dict(os.environ)
        own = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        paths = environment.get("PYTHONPATH", "").split(os.pathsep)
        if own not in paths:  # workers of a Python loop import this package
            environment["PYTHONPATH"] = os.pathsep.join([own, *filter(None, paths)])
        with theirs:
            self._process = subprocess.Popen(
                [program, words[0], "--driver-fd", str(theirs.fileno()), *words[1:]],
                pass_fds=[theirs.fileno()],
                stdout=None if show_output else subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                env=environment,
            )
        self._show_output = show_output
        self._reader = threading.Thread(target=self._read_errors, name="train-run's stderr", daemon=True)
        self._reader.start()

    def _read_errors(self) -> None:
        """Pass on what the program writes, whatever other threads do: it must never wait for room in the pipe."""
        stream = self._process.stderr
        assert stream is not None
        with stream:
            while piece := os.read(stream.fileno(), 16 << 10):
                if self._show_output:
                    with contextlib.suppress(OSError, ValueError):
                        sys.stderr.write(piece.decode(errors="replace"))
                        sys.stderr.flush()
                self._errors = (self._errors + piece)[-_ERRORS_BYTES_MAX:]

    def next_event(self, limit: float) -> Optional[dict[str, Any]]:
        """Return the next event; None if none comes in time, or if there are no more (over)."""
        until = time.monotonic() + limit
        while True:
            line, found, rest = self._pending.partition(b"\n")
            if found:
                self._pending = rest
                event = json.loads(line)
                return event if isinstance(event, dict) else {}
            left = until - time.monotonic()
            if self.over or left <= 0:
                return None
            readable = select.poll()  # unlike select(), it takes any descriptor
            readable.register(self._socket, select.POLLIN)
            if not readable.poll(left * 1000):
                return None
            try:
                piece = self._socket.recv(64 << 10)
            except OSError:
                piece = b""
            self._pending += piece
            self.over = not piece or len(self._pending) > _LINE_BYTES_MAX

    def send(self, command: dict[str, Any]) -> None:
        with self._lock, contextlib.suppress(OSError):
            self._socket.sendall(_library.to_json(command) + b"\n")

    def wait(self) -> int:
        """Wait until the program has ended. Return its exit code, or 128 + the signal that killed it."""
        code = self._process.wait()
        self._reader.join(timeout=1)  # somebody who has inherited the pipe may keep it open
        return code if code >= 0 else 128 - code

    def errors(self) -> str:
        """Return the end of what it wrote to stderr. Call it after wait()."""
        return self._errors.decode(errors="replace")

    def leave(self) -> None:
        """Close the socket, so that the run stops in good order, and workers that stay end."""
        with self._lock:
            self._socket.close()
        self.over, self._pending = True, b""

    def close(self) -> None:
        """Leave, and wait for the program's end."""
        self.leave()
        self.wait()
