"""Calls that all ranks make in the same order. They raise Stopped when the run is being stopped."""

from __future__ import annotations

import ctypes
import json
from typing import Any, Callable, Optional

from . import _library
from ._errors import Failure


def barrier(timeout: Optional[float] = None) -> None:
    """Wait until every rank has called it, for at most `timeout` seconds."""
    _library.call("barrier", _library.milliseconds(timeout))


def broadcast_from_rank_zero(value: Any = None) -> Any:
    """Return rank 0's value on every rank: at most 64 KiB as JSON. What other ranks pass is not used."""
    out = ctypes.c_char_p()
    _library.call("broadcast_from_rank_zero", _library.to_json(value), ctypes.byref(out))
    return json.loads(out.value or b"null")


def all_gather(value: Any) -> list[Any]:
    """Return every rank's value, by rank: at most 64 KiB each as JSON."""
    out = ctypes.c_char_p()
    _library.call("all_gather", _library.to_json(value), ctypes.byref(out))
    return json.loads(out.value or b"[]")


def reduce(metrics: dict[str, Any], how: str = "mean") -> dict[str, Any]:
    """Combine each metric over all ranks: "mean", "sum", "min" or "max". What is not a finite number comes back as None."""
    out = ctypes.c_char_p()
    _library.call("reduce", _library.to_json(metrics), how.encode(), ctypes.byref(out))
    return _library.dict_of((out.value or b"{}").decode())


def once_per_node(name: str, function: Callable[[], object]) -> None:
    """Run `function` on one rank of each node while that node's other ranks wait. Later calls with the same name return at once.
    If it raises, the rank that ran it gets that exception, and the node's other ranks get a Failure with its text."""
    raised: list[BaseException] = []

    def run(_user: Any, error: Any, size: int) -> int:
        try:
            function()
        except BaseException as exception:  # it must not pass through C
            raised.append(exception)
            text = f"{type(exception).__name__}: {exception}".encode()[: size - 1] + b"\0"
            ctypes.memmove(error, text, len(text))
            return 1
        return 0

    try:
        _library.call("once_per_node", name.encode(), _library.OnceFunction(run), None)
    except Failure:
        if raised:
            raise raised[0] from None
        raise
