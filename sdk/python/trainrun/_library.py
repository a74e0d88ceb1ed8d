"""libtrainrun.so: finds it, declares its functions, and turns their codes into exceptions.

While a function runs, other threads of Python run. The library keeps the last error by thread."""

from __future__ import annotations

import ctypes
import json
import os
import sys
import threading
from pathlib import Path
from typing import Any, Callable, Optional

from . import _memory, _settle
from ._errors import Failure, Stopped

STOPPED = 2  # TRAINRUN_STOPPED
LIBRARY = "libtrainrun.so.0"

_text, _int, _int64, _handle = ctypes.c_char_p, ctypes.c_int, ctypes.c_int64, ctypes.c_void_p
OnceFunction = ctypes.CFUNCTYPE(_int, ctypes.c_void_p, ctypes.POINTER(ctypes.c_char), ctypes.c_size_t)
ServedFunction = ctypes.CFUNCTYPE(None, ctypes.c_void_p, _text, _handle)
StopFunction = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)

# Functions that return TRAINRUN_OK, TRAINRUN_FAILED or TRAINRUN_STOPPED; numbers, of which -1 is a failure; texts and handles, of
# which NULL is one. Each with its arguments.
_CODES: dict[str, list[Any]] = {
    "start": [],
    "finish": [_text],
    "finish_error": [_text, _text, _text],
    "report": [_text],
    "report_checkpoint": [_text, _handle],
    "report_checkpoint_sync": [_text, _handle],
    "report_checkpoint_no_upload": [_text, _handle],
    "histogram": [_text, ctypes.POINTER(ctypes.c_double), ctypes.c_size_t, _int],
    "wait_for_checkpoint": [ctypes.POINTER(_text)],
    "checkpoint_set_metadata": [_handle, _text],
    "get_checkpoint": [ctypes.POINTER(_handle)],
    "validation_result": [_text],
    "reported_checkpoints": [_int, _int64, ctypes.POINTER(_text)],
    "on_stop": [StopFunction, ctypes.c_void_p],
    "set_result": [_text],
    "answer_result": [_handle, _text],
    "answer_error": [_handle, _text, _text],
    "poll": [ctypes.c_double, ctypes.POINTER(ctypes.c_size_t)],
    "once_per_node": [_text, OnceFunction, ctypes.c_void_p],
    "phase_begin": [_text, _int64],
    "phase_say": [_text],
    "phase_end": [],
    "step": [],
    "barrier": [_int64],
    "all_gather": [_text, ctypes.POINTER(_text)],
    "broadcast_from_rank_zero": [_text, ctypes.POINTER(_text)],
    "reduce": [_text, _text, ctypes.POINTER(_text)],
}
_NUMBERS = [
    "world_size", "world_rank", "local_rank", "local_world_size", "node_rank", "node_count", "attempt", "supervised", "start_epoch",
    "restored_world_size", "should_stop", "checkpoint_requested", "validating", "next_run",
]  # fmt: skip
_TEXTS: dict[str, list[Any]] = {
    "role": [],
    "run_name": [],
    "run_id": [],
    "storage_path": [],
    "config_json": [],
    "metadata_json": [],
    "checkpoint_directory": [_handle],
    "checkpoint_value_json": [_handle],
    "checkpoint_metadata_json": [_handle],
    "checkpoint_metrics_json": [_handle],
}
_HANDLES: dict[str, list[Any]] = {"checkpoint_from_directory": [_text], "checkpoint_from_json": [_text], "checkpoint_open": [_text]}


def find() -> str:
    """Return the library's path: TRAINRUN_LIBRARY, or the one of this package (a wheel's), or the system's."""
    named = os.environ.get("TRAINRUN_LIBRARY")
    if named:
        return named
    own = Path(__file__).parent / "lib" / LIBRARY
    return str(own) if own.exists() else LIBRARY


class _Library:
    """The loaded library. Loading connects to nothing."""

    def __init__(self) -> None:
        path = find()
        try:
            self.loaded = ctypes.CDLL(path)
        except OSError as error:
            raise Failure("unavailable", f"{path} cannot be loaded: {error} (install trainrun, or set TRAINRUN_LIBRARY)") from None
        for names, returned in ((_CODES, _int), (dict.fromkeys(_NUMBERS, []), _int), (_TEXTS, _text), (_HANDLES, _handle)):
            for name, arguments in names.items():
                self._declare(name, arguments, returned)
        self._declare("last_error", [], _text)
        self._declare("last_error_kind", [], _text)
        self._declare("checkpoint_free", [_handle], None)
        self._declare("serve", [_text, _int, ServedFunction, ctypes.c_void_p], _int)

    def _declare(self, name: str, arguments: list[Any], returned: Any) -> None:
        try:
            function = getattr(self.loaded, "trainrun_" + name)
        except AttributeError:
            raise Failure("unavailable", f"{find()} is of another version of trainrun: it has no trainrun_{name}") from None
        function.argtypes, function.restype = arguments, returned


_lock = threading.Lock()
_library: Optional[_Library] = None
_connected = False  # this process has called the library
_forked = False  # this process is a child of one that has
_of_one_run: list[Callable[[], None]] = []  # functions that forget what belongs to the run


def _after_fork() -> None:
    global _forked, _lock
    _forked = _forked or _connected
    _lock = threading.Lock()  # another thread of the parent may have held it


os.register_at_fork(after_in_child=_after_fork)


def _take_environment() -> None:
    """Bring os.environ up to date: a worker that stood by has got its environment when it connected, in C. So has one that another
    run has taken."""
    pointer = ctypes.POINTER(ctypes.c_char_p).in_dll(ctypes.CDLL(None), "environ")
    now: dict[bytes, bytes] = {}
    for entry in iter_until_null(pointer):
        name, _, value = entry.partition(b"=")
        now[name] = value
    for name, value in now.items():
        if os.environb.get(name) != value:
            os.environb[name] = value
    for name in set(os.environb) - set(now):
        del os.environb[name]


def iter_until_null(pointer: Any) -> Any:
    index = 0
    while pointer and pointer[index] is not None:
        yield pointer[index]
        index += 1


def loaded() -> Any:
    """Return the library's functions, for those that need no run."""
    global _library
    with _lock:
        if _library is None:
            _library = _Library()
        return _library.loaded


def library() -> Any:
    """Return the library's functions, connected to the run."""
    global _library, _connected
    if _forked:
        raise Failure("unavailable", "a child of a fork cannot use trainrun: call it in the process that was the worker at first")
    if _connected and _library is not None:
        return _library.loaded
    starts: Optional[_Library] = None
    with _lock:
        if _library is None:
            _library = _Library()
        if not _connected:
            if _library.loaded.trainrun_start() != 0:
                raise last_error(_library.loaded)
            _take_environment()
            _connected = True
            _memory.offer(_library.loaded)
            _settle.install()
            if os.environ.get("TRAINRUN_INGEST"):
                starts = _library
    if starts is not None:
        _serve_datasets(starts.loaded)
    return _library.loaded


def _serve_datasets(functions: Any) -> None:
    """End this process as an ingest worker, which the run has started to read datasets for the ranks: it has no loop to run."""
    from ._datasets import serve

    code = serve()
    functions.trainrun_finish(None)
    sys.stdout.flush()
    os._exit(code)


def forget_before_next_run(forget: Callable[[], None]) -> None:
    """Have a function called when this worker leaves its run."""
    _of_one_run.append(forget)


def next_run() -> bool:
    """End this worker's part in its run, and wait for another run that takes it. Return False if there is none, or if the run does
    not keep its workers: the process is to end."""
    functions = library()
    for forget in _of_one_run:
        forget()
    sys.stdout.flush()
    sys.stderr.flush()
    code = functions.trainrun_next_run()
    if code < 0:
        raise last_error(functions)
    _take_environment()
    return bool(code)


def connected() -> bool:
    return _connected and not _forked


def forked() -> bool:
    return _forked


def last_error(loaded: Any) -> Failure:
    kind, text = (getattr(loaded, "trainrun_" + name)() or b"" for name in ("last_error_kind", "last_error"))
    return Failure(kind.decode(errors="replace"), text.decode(errors="replace"))


def call(name: str, *arguments: Any) -> None:
    """Call a function that returns a code. Raises Failure or Stopped."""
    loaded = library()
    code = getattr(loaded, "trainrun_" + name)(*arguments)
    if code == STOPPED:
        raise Stopped(str(last_error(loaded)))
    if code != 0:
        raise last_error(loaded)


def number(name: str) -> int:
    loaded = library()
    value: int = getattr(loaded, "trainrun_" + name)()
    if value < 0:
        raise last_error(loaded)
    return value


def text(name: str, *arguments: Any, connect: bool = True) -> str:
    functions = library() if connect else loaded()
    value = getattr(functions, "trainrun_" + name)(*arguments)
    if value is None:
        raise last_error(functions)
    return str(value.decode(errors="replace"))


def dict_of(json_text: str) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(json_text)
    return value


def handle(name: str, *arguments: Any, connect: bool = True) -> ctypes.c_void_p:
    functions = library() if connect else loaded()
    value = getattr(functions, "trainrun_" + name)(*arguments)
    if value is None:
        raise last_error(functions)
    return ctypes.c_void_p(value)


def free_checkpoint(value: ctypes.c_void_p) -> None:
    if _library is not None and not _forked and not sys.is_finalizing():
        _library.loaded.trainrun_checkpoint_free(value)


def _plain(value: Any) -> Any:
    """Return a number of NumPy or PyTorch as one of Python, an array as lists, a path as its text."""
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    for method in ("tolist", "item"):
        convert: Optional[Callable[[], Any]] = getattr(value, method, None)
        if callable(convert):
            return convert()
    raise Failure("invalid_argument", f"a value of type {type(value).__qualname__} cannot be written as JSON")


def to_json(value: Any) -> bytes:
    """Write NaN and infinities as Python does, which the library reads."""
    try:
        return json.dumps(value, default=_plain, separators=(",", ":")).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise Failure("invalid_argument", f"the value cannot be written as JSON: {error}") from None


def milliseconds(seconds: Optional[float]) -> int:
    """Return what the library takes for a timeout: none is -1."""
    if seconds is None:
        return -1
    if not seconds >= 0:
        raise Failure("invalid_argument", f"the timeout is {seconds} s, at least 0 is needed")
    return int(min(seconds * 1000, 2**62))
