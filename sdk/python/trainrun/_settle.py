"""Lets PyTorch's threads come to rest before the interpreter ends.

After a collective has ended for its caller, a thread of ProcessGroupGloo still gives back what it held of Python's objects. If it needs
the interpreter for that while Py_Finalize runs, CPython before 3.14 ends the thread with pthread_exit(), which cannot pass through a
destructor in C++: the process aborts ("terminate called without an active exception"), and a rank that had done all its work fails. Seen
on 2026-11-28 with PyTorch 2.11 and CPython 3.11, in 1 of 24 ends of a worker on a loaded machine."""

from __future__ import annotations

import atexit
import os
import sys
import time

_THREAD = b"pt_gloo_runloop\n"
_SECONDS_MAX = 1.0
_LOOKS = 3  # in a row that find all asleep


def _are_asleep() -> bool:
    for thread in os.listdir("/proc/self/task"):
        try:
            with open(f"/proc/self/task/{thread}/comm", "rb") as comm, open(f"/proc/self/task/{thread}/stat", "rb") as stat:
                if comm.read() == _THREAD and stat.read().rpartition(b") ")[2][:1] != b"S":
                    return False
        except OSError:  # it has ended
            continue
    return True


def _settle() -> None:
    if "torch.distributed" not in sys.modules:
        return
    until, found = time.monotonic() + _SECONDS_MAX, 0
    while found < _LOOKS and time.monotonic() < until:
        time.sleep(0.001)  # one that waits for the interpreter gets it
        found = found + 1 if _are_asleep() else 0


def install() -> None:
    """Call this once, when this process becomes a worker."""
    atexit.register(_settle)
