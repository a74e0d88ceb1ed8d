"""What the loop is doing, for train-run's watch over hangs. Reports, checkpoints and collectives are marked without this."""

from __future__ import annotations

import contextlib
from typing import Callable, Iterator, Optional

from . import _library


@contextlib.contextmanager
def phase(name: str, limit: Optional[float] = None) -> Iterator[Callable[[str], None]]:
    """Mark a phase of the loop, which may last `limit` seconds; without a limit, the spec's apply. The value is a function that
    says what is done in it: `with trainrun.phase("prepare") as say: say("shard 3")`."""
    _library.call("phase_begin", name.encode(), 0 if limit is None else _library.milliseconds(limit))
    try:
        yield lambda text: _library.call("phase_say", text.encode())
    finally:
        _library.call("phase_end")


def step() -> None:
    """Mark the end of a step."""
    _library.call("step")
