"""Functions of this program that others call while its loop runs: `train-run exec RUN NAME`, and Trainer.call()."""

from __future__ import annotations

import ctypes
import json
import traceback
from typing import Any, Callable, Optional, TypeVar, Union

from . import _library
from ._errors import Failure, Stopped

_Function = TypeVar("_Function", bound=Callable[..., Any])
_served: list[Any] = []  # C keeps their addresses; one that another has replaced may still be running


def serve(name: Union[str, _Function, None] = None, function: Optional[_Function] = None, *, at_once: bool = False) -> Any:
    """Let others call a function of this rank by its name.

        @trainrun.serve
        def set_lr(lr):
            for group in optimizer.param_groups:
                group["lr"] = lr

    serve("set_lr", f) and @serve("set_lr") do the same. The function gets the caller's argument, if it takes one: any JSON value of at
    most 512 KiB. Its answer is likewise one; an exception becomes the caller's error, and its traceback is printed here. It runs on the
    loop's thread, in the next report() or poll(); with at_once on a thread of its own. <train/serve.h> has all that holds."""
    if callable(name):
        return _serve(name.__name__, name, at_once)
    if function is None:
        return lambda decorated: _serve(name or decorated.__name__, decorated, at_once)
    return _serve(name or function.__name__, function, at_once)


def _serve(name: str, function: _Function, at_once: bool) -> _Function:
    takes_argument = _takes_argument(function)

    def run(_user: Any, argument: bytes, answer: Any) -> None:
        functions = _library.loaded()
        try:
            result = function(json.loads(argument)) if takes_argument else function()
            _answered(functions.trainrun_answer_result(answer, _library.to_json(result)))
        except Stopped as stopped:
            functions.trainrun_answer_error(answer, b"stopped", str(stopped).encode(errors="replace"))
        except BaseException as exception:  # it must not pass through C
            traceback.print_exc()
            text = f"{type(exception).__name__}: {exception}".encode(errors="replace").replace(b"\0", b"?")
            functions.trainrun_answer_error(answer, b"error", text)

    called = _library.ServedFunction(run)
    _served.append(called)
    functions = _library.loaded()
    if functions.trainrun_serve(name.encode(), int(at_once), called, None) != 0:
        raise _library.last_error(functions)
    return function


def _takes_argument(function: Callable[..., Any]) -> bool:
    import inspect

    parameters = [one for one in inspect.signature(function).parameters.values() if one.kind != one.VAR_KEYWORD]
    needed = [one for one in parameters if one.default is one.empty and one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    if len(needed) > 1:
        raise Failure("invalid_argument", f"serve: {function.__name__} takes {len(needed)} arguments; a call has one")
    return any(one.kind != one.KEYWORD_ONLY for one in parameters)


def _answered(code: int) -> None:
    if code != 0:
        raise _library.last_error(_library.loaded())


def poll(wait: float = 0.0) -> int:
    """Run the calls that have come; if there are none, wait for one, at most so many seconds. Return how many were run. For a loop
    that seldom reports, or that only does what it is called for. Raises Stopped as report() does."""
    served = ctypes.c_size_t()
    _library.call("poll", wait, ctypes.byref(served))
    return served.value
