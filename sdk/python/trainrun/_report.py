"""Metrics and checkpoints that a rank hands over, and what it asks about them."""

from __future__ import annotations

import ctypes
import json
import os
import traceback
from typing import Any, Callable, Iterable, Optional

from . import _library
from ._checkpoint import Checkpoint, ReportedCheckpoint
from ._errors import Failure

_UPLOADS = {"async": "report_checkpoint", "sync": "report_checkpoint_sync", "none": "report_checkpoint_no_upload"}


def report(metrics: dict[str, Any], checkpoint: Optional[Checkpoint] = None, *, upload: str = "async") -> None:
    """Report metrics, and perhaps a checkpoint. Every rank reports, at the same steps. Metrics are numbers, texts, and dicts of
    them, also of NumPy or PyTorch. NaN and infinities are kept.

    upload: "async" returns once the checkpoint's files are copied; "sync" once it is committed or given up; "none" moves its folder,
    which is in the run's storage already, and copies nothing. Raises Stopped when the run is being stopped."""
    text = _library.to_json(metrics)
    if upload not in _UPLOADS:
        raise Failure("invalid_argument", f"report: unknown upload '{upload}' (known: {', '.join(_UPLOADS)})")
    if checkpoint is None:
        _library.call("report", text)
    else:
        _library.call(_UPLOADS[upload], text, checkpoint._handle)


def get_checkpoint() -> Optional[Checkpoint]:
    """Return the checkpoint to go on from, the same on every rank, with its files verified; None at a fresh start."""
    out = ctypes.c_void_p()
    _library.call("get_checkpoint", ctypes.byref(out))
    return Checkpoint(out) if out.value else None


def wait_for_checkpoint() -> Optional[str]:
    """Wait until every checkpoint that this rank has reported is committed or given up. Return the newest one's folder; None if
    that one was given up, or none was reported."""
    out = ctypes.c_char_p()
    _library.call("wait_for_checkpoint", ctypes.byref(out))
    return os.fsdecode(out.value) if out.value is not None else None


def get_all_reported_checkpoints(*, validated: bool = False, timeout: Optional[float] = None) -> list[ReportedCheckpoint]:
    """Return the checkpoints of the run that are kept, oldest first. validated: wait until none is pending validation."""
    out = ctypes.c_char_p()
    _library.call("reported_checkpoints", int(validated), _library.milliseconds(timeout), ctypes.byref(out))
    return [ReportedCheckpoint(**one) for one in json.loads(out.value or b"[]")]


def should_stop() -> bool:
    """Return True once the run is being stopped."""
    return _library.number("should_stop") == 1


def checkpoint_requested() -> bool:
    """Return True where all ranks are to report a checkpoint, because somebody asked for one. Call it once a step, on all ranks."""
    return _library.number("checkpoint_requested") == 1


def set_result(value: Any) -> None:
    """Set this rank's result: any JSON value of at most 1 MiB. The last call wins."""
    _library.call("set_result", _library.to_json(value))


def histogram(name: str, values: Iterable[float], bins: int = 30) -> None:
    """Count values into a histogram that TensorBoard shows, with the next report. An array of NumPy or a tensor is flattened."""
    flatten: Any = getattr(values, "ravel", None)
    numbers = [float(value) for value in (flatten() if callable(flatten) else values)]
    _library.call("histogram", name.encode(), (ctypes.c_double * len(numbers))(*numbers), len(numbers), bins)


_stop_function: Any = None  # C keeps its address


def on_stop(make: Optional[Callable[[], Checkpoint]]) -> None:
    """Set the function that saves the last step: when the run stops at a report that carried no checkpoint, report() calls it and
    keeps the checkpoint that it returns. None removes it. If it raises, its traceback is written to stderr, and report() fails."""
    global _stop_function

    def run(_user: Any) -> Optional[int]:
        try:
            checkpoint = make() if make is not None else None
            return checkpoint._release() if checkpoint is not None else None
        except BaseException:  # it must not pass through C
            traceback.print_exc()
            return None

    function = _library.StopFunction(run) if make is not None else _library.StopFunction()
    _library.call("on_stop", function, None)
    _stop_function = function if make is not None else None


def _forget_stop_function() -> None:
    if _stop_function is not None:
        on_stop(None)


_library.forget_before_next_run(_forget_stop_function)


def validating() -> bool:
    """Return True in a process that was started to validate the checkpoint that get_checkpoint() returns."""
    return _library.number("validating") == 1


def report_validation(metrics: dict[str, Any]) -> None:
    """Hand over the result of a validation; the program then ends with code 0."""
    _library.call("validation_result", _library.to_json(metrics))
