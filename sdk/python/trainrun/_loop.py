"""How workers find a training loop that is a function of Python."""

from __future__ import annotations

import base64
import inspect
import os
import sys
from typing import Any, Callable

from ._errors import Failure

_BYTES_MAX = 90 << 10  # of a pickled loop: Linux limits a word of a command to 128 KiB


def _on_nodes(file: str, spec: dict[str, Any]) -> str:
    """Return the path by which workers find a file: in a job that ships its code, relative to working_dir if it lies there."""
    path = os.path.abspath(file)
    root = os.path.abspath(spec.get("working_dir") or os.curdir)
    return os.path.relpath(path, root) if spec.get("ship") and os.path.commonpath([path, root]) == root else path


def loop_command(loop: Callable[..., Any], spec: dict[str, Any]) -> list[str]:
    """Return the command of a worker that calls the loop."""
    return [sys.executable, "-m", "trainrun.worker", loop_word(loop, spec)]


def loop_word(loop: Callable[..., Any], spec: dict[str, Any]) -> str:
    """Return the loop as trainrun.worker takes it: FILE:NAME, or the function itself, pickled."""
    parameters = [
        one for one in inspect.signature(loop).parameters.values() if one.default is one.empty and one.kind != one.VAR_KEYWORD
    ]
    if len(parameters) > 1:
        raise ValueError(f"the loop {loop.__qualname__} takes {len(parameters)} parameters; it may take train_loop_config, or nothing")
    owner = loop.__self__ if inspect.ismethod(loop) and inspect.isclass(loop.__self__) else None  # of a classmethod: a subclass, perhaps
    try:
        file = inspect.getsourcefile(owner or loop)
    except (OSError, TypeError):  # a class of a notebook, or of the interpreter
        file = None
    name = f"{owner.__qualname__}.{loop.__name__}" if owner else loop.__qualname__
    if file and "<" not in name and os.path.isfile(file):
        return f"{_on_nodes(file, spec)}:{name}"
    try:
        import cloudpickle
    except ImportError:
        raise Failure(
            "unavailable",
            f"the loop {loop.__qualname__} is not at the top level of a file, so that workers cannot import it: move it there, or pip "
            "install cloudpickle",
        ) from None
    pickled = base64.b64encode(cloudpickle.dumps(loop)).decode()
    if len(pickled) > _BYTES_MAX:
        raise Failure(
            "invalid_argument",
            f"the loop {loop.__qualname__} takes {len(pickled) >> 10} KiB with what it refers to, more than {_BYTES_MAX >> 10}: "
            "define it at the top level of a file, and let it load its data itself",
        )
    return f"pickle:{pickled}"
