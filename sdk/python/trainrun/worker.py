"""python -m trainrun.worker LOOP: the worker of a Trainer whose training loop is a function of Python.

LOOP is FILE:NAME, or pickle:BASE64 of a function that cloudpickle has written; $TRAINRUN_LOOP takes its place. The loop gets
train_loop_config if it takes a parameter; what it returns becomes the rank's result. If the run keeps its workers, the next run that
takes this one calls its loop here. A file is loaded once: its global variables stay."""

from __future__ import annotations

import base64
import functools
import gc
import importlib.util
import inspect
import os
import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import trainrun

from . import _library

_modules: dict[str, ModuleType] = {}  # by their files


def _load_file(file: str) -> ModuleType:
    if file in _modules:
        return _modules[file]
    # The file's folder, as for `python FILE`; the name is not __main__, so that what only the driver is to do is left out.
    sys.path.insert(0, str(Path(file).parent))
    name = f"trainrun_loop_{len(_modules) + 1}" if _modules else "trainrun_loop"
    specification = importlib.util.spec_from_file_location(name, file)
    assert specification is not None and specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    sys.modules[name] = module
    specification.loader.exec_module(module)
    _modules[file] = module
    return module


@functools.lru_cache(maxsize=None)
def load(loop: str) -> Callable[..., Any]:
    """Return the function."""
    if loop.startswith("pickle:"):
        found: Any = pickle.loads(base64.b64decode(loop[len("pickle:") :]))
    else:
        file, _, name = loop.rpartition(":")
        found = _load_file(file)
        for part in name.split("."):
            found = getattr(found, part)
    if not callable(found):
        raise TypeError(f"{loop} is no function")
    return found  # type: ignore[no-any-return]


def _run(loop: Callable[..., Any]) -> None:
    returned = loop(trainrun.get_context().get_config()) if inspect.signature(loop).parameters else loop()
    if returned is not None:
        trainrun.set_result(returned)


def _end_process_group() -> None:
    """End what belongs to the ranks of this run, and would be in the next one's way."""
    accelerate: Any = sys.modules.get("accelerate.state")
    if accelerate is not None:
        accelerate.AcceleratorState._reset_state(reset_partial_state=True)
        accelerate.GradientState._reset_state()
    distributed: Any = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        gc.collect()  # a cycle in DistributedDataParallel keeps the group
        distributed.destroy_process_group()


def main(words: list[str]) -> None:
    if len(words) != 1:
        sys.exit("usage: python -m trainrun.worker FILE:NAME")
    while True:
        keeps = bool(os.environ.get("TRAINRUN_KEEPS_WORKERS"))  # the run does; else it ends with this process
        try:
            _run(load(os.environ.get("TRAINRUN_LOOP") or words[0]))
        except trainrun.Stopped:
            if not keeps:
                raise
        if not keeps:
            return
        _end_process_group()
        if not _library.next_run():
            return


if __name__ == "__main__":
    main(sys.argv[1:])
