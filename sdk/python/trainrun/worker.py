"""python -m trainrun.worker LOOP: the worker of a Trainer whose training loop is a function of Python.

LOOP is FILE:NAME, or pickle:BASE64 of a function that cloudpickle has written. The loop gets train_loop_config if it takes a
parameter; what it returns becomes the rank's result."""

from __future__ import annotations

import base64
import importlib.util
import inspect
import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import trainrun


def load(loop: str) -> Callable[..., Any]:
    """Return the function."""
    if loop.startswith("pickle:"):
        found: Any = pickle.loads(base64.b64decode(loop[len("pickle:") :]))
    else:
        file, _, name = loop.rpartition(":")
        # The file's folder, as for `python FILE`; the name is not __main__, so that what only the driver is to do is left out.
        sys.path.insert(0, str(Path(file).parent))
        specification = importlib.util.spec_from_file_location("trainrun_loop", file)
        assert specification is not None and specification.loader is not None
        module = importlib.util.module_from_spec(specification)
        sys.modules["trainrun_loop"] = module
        specification.loader.exec_module(module)
        found = module
        for part in name.split("."):
            found = getattr(found, part)
    if not callable(found):
        raise TypeError(f"{loop} is no function")
    return found  # type: ignore[no-any-return]


def main(words: list[str]) -> None:
    if len(words) != 1:
        sys.exit("usage: python -m trainrun.worker FILE:NAME")
    loop = load(words[0])
    returned = loop(trainrun.get_context().get_config()) if inspect.signature(loop).parameters else loop()
    if returned is not None:
        trainrun.set_result(returned)


if __name__ == "__main__":
    main(sys.argv[1:])
