"""events.h for Python workers: the same lines in the same files."""

import os
import time


def event(name: str, rank: int, path: str, at_ns: int | None = None) -> None:
    """Append one line "name rank pid nanoseconds" in one write."""
    at_ns = time.monotonic_ns() if at_ns is None else at_ns
    line = f"{name} {rank} {os.getpid()} {at_ns}\n".encode()
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        os.write(file, line)
    finally:
        os.close(file)


def held(path: str) -> bool:
    """Return whether this worker should stay until it is killed."""
    return os.path.exists(path)
