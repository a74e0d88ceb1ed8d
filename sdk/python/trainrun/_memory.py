"""Shows what Python's functions allocate, by memray, if that is installed, when somebody asks for a profile of memory.

The library calls `_begin` and `_end` on a thread of its own. memray writes a small summary into a file in memory; another process reads
it, so that the program only waits for memray itself."""

from __future__ import annotations

import atexit
import ctypes
import json
import os
import subprocess
import sys
from typing import Any

_STACKS_MAX = 16384
_DEPTH_MAX = 128
_READ_SECONDS = 10.0

_text, _int, _handle = ctypes.c_char_p, ctypes.c_int, ctypes.c_void_p
_error = ctypes.POINTER(ctypes.c_char)
_BeginFunction = ctypes.CFUNCTYPE(_int, _handle, _error, ctypes.c_size_t)
_EndFunction = ctypes.CFUNCTYPE(_int, _handle, _handle, _error, ctypes.c_size_t)
_kept: list[Any] = []  # functions that the library may call


class _Memray:
    """One use of memray after another."""

    def __init__(self, functions: Any) -> None:
        self._add = functions.trainrun_memory_stack
        self._add.argtypes, self._add.restype = [_handle, _text, *([ctypes.c_uint64] * 3)], None
        self._tracker: Any = None
        self._file = -1

    def begin(self) -> None:
        try:
            import memray
        except ImportError as error:
            raise RuntimeError(f"memray is not installed in the worker's environment: {error}") from None
        self._file = os.memfd_create("trainrun-memory")
        try:
            self._tracker = memray.Tracker(
                destination=memray.FileDestination(f"/proc/self/fd/{self._file}", overwrite=True, compress_on_exit=False),
                file_format=memray.FileFormat.AGGREGATED_ALLOCATIONS,
            )
            self._tracker.__enter__()
        except BaseException:
            self._close()
            raise

    def end(self, out: Any) -> None:
        try:
            self._tracker.__exit__(None, None, None)
            reader = subprocess.run(
                [sys.executable, "-m", "trainrun._memory", str(self._file)],
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
                pass_fds=[self._file],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                timeout=_READ_SECONDS,
            )
            if reader.returncode != 0:
                said = reader.stderr.decode(errors="replace").strip()
                raise RuntimeError(f"what memray has written could not be read: {said[-500:]}")
        finally:
            self._close()
        for line in reader.stdout.splitlines():
            frames, *numbers = json.loads(line)
            self._add(out, frames.encode(errors="replace"), *numbers)

    def _close(self) -> None:
        self._tracker = None
        os.close(self._file)


def _guarded(work: Any, error: Any, size: int) -> int:
    """Turn an exception into a code and a text, as the library wants them."""
    try:
        work()
        return 0
    except BaseException as caught:
        said = (str(caught) or type(caught).__name__).replace("\0", "\\0").encode(errors="replace")[: size - 1]
        ctypes.memmove(error, said + b"\0", len(said) + 1)
        return 1


def offer(functions: Any) -> None:
    """Offer memray to the library, whether or not it is installed: that is looked at when it is needed."""
    memray = _Memray(functions)
    begin = _BeginFunction(lambda _, error, size: _guarded(memray.begin, error, size))
    end = _EndFunction(lambda _, out, error, size: _guarded(lambda: memray.end(out), error, size))
    _kept.extend([begin, end])
    process = os.getpid()

    def withdraw() -> None:
        if os.getpid() == process:  # not in the child of a fork, which has no thread that could be at work
            functions.trainrun_memory_profiler(None, _BeginFunction(), _EndFunction(), None)

    functions.trainrun_memory_profiler.argtypes = [_text, _BeginFunction, _EndFunction, _handle]
    if functions.trainrun_memory_profiler(b"memray", begin, end, None) == 0:
        atexit.register(withdraw)  # while the interpreter can still run them


def _read(file: int) -> None:
    """Print each stack as a line of JSON: its frames by lines, the innermost first, and its numbers. The largest come first."""
    import memray

    reader = memray.FileReader(f"/proc/self/fd/{file}")
    stacks: dict[str, list[int]] = {}  # allocated, not freed, allocations
    for at, records in enumerate((reader.get_high_watermark_allocation_records, reader.get_leaked_allocation_records)):
        for record in records(merge_threads=True):
            frames = "\n".join(f"{function} ({os.path.basename(path)})" for function, path, _ in record.stack_trace(_DEPTH_MAX))
            numbers = stacks.setdefault(frames.replace("\0", "\\0"), [0, 0, 0])
            numbers[at] += record.size
            numbers[2] = max(numbers[2], record.n_allocations)
    largest = sorted(stacks.items(), key=lambda item: -max(item[1][:2]))
    for frames, (peak, leaked, count) in largest[:_STACKS_MAX]:
        print(json.dumps([frames, max(peak, leaked), leaked, count]))
    rest = [numbers for _, numbers in largest[_STACKS_MAX:]]
    if rest:
        print(json.dumps(["[other stacks]", sum(max(n[:2]) for n in rest), sum(n[1] for n in rest), sum(n[2] for n in rest)]))


if __name__ == "__main__":
    _read(int(sys.argv[1]))
