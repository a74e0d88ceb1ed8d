"""Hands over the exception that ends a worker: its type, text and traceback become the rank's cause of failure."""

from __future__ import annotations

import os
import sys
import traceback
from types import TracebackType
from typing import Any, Optional

from . import _library

_before: Any = None


def _is_worker() -> bool:
    """Return whether this process, not a parent of it, is the worker: connected, or the leader of its session, as trainrun starts
    workers."""
    if _library.connected():
        return True
    return bool(os.environ.get("TRAINRUN_SOCKET")) and os.getsid(0) == os.getpid()


def _report(kind: type[BaseException], value: BaseException, trace: Optional[TracebackType]) -> None:
    name = kind.__qualname__ if kind.__module__ in ("builtins", "__main__") else f"{kind.__module__}.{kind.__qualname__}"
    stack = "".join(traceback.format_exception(kind, value, trace))
    texts = [text.replace("\0", "\\0").encode(errors="replace") for text in (str(value), name, stack)]
    _library.call("finish_error", *texts)


def _hook(kind: type[BaseException], value: BaseException, trace: Optional[TracebackType]) -> None:
    _before(kind, value, trace)
    if issubclass(kind, KeyboardInterrupt) or not _is_worker():
        return
    try:
        _report(kind, value, trace)
    except Exception as error:  # the exception that ends the worker was shown
        print(f"trainrun: the error could not be reported: {error}", file=sys.stderr)


def install() -> None:
    """Call this once, when the package is imported."""
    global _before
    _before, sys.excepthook = sys.excepthook, _hook
