"""Hugging Face's Accelerate in a worker.

    import trainrun.accelerate

    accelerator = accelerate.Accelerator()
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    restored = trainrun.accelerate.load_state(accelerator)
    for epoch in range(trainrun.get_context().get_start_epoch(), epochs):
        ...
        trainrun.accelerate.report_state(accelerator, {"epoch": epoch, "loss": loss})"""

from __future__ import annotations

from typing import Any, Optional

import trainrun

from ._checkpoint import Checkpoint
from ._errors import Failure
from ._staged import staged


def report_state(accelerator: Any, metrics: dict[str, Any], *, upload: str = "async", **save_state: Any) -> None:
    """Report metrics with a checkpoint of what accelerator.save_state() saves: models, optimizers, schedulers, loaders, random
    numbers, and what register_for_checkpointing() was told. All ranks call it. `save_state`: more arguments of that function."""
    if accelerator.project_configuration.automatic_checkpoint_naming:
        raise Failure("invalid_argument", "Accelerate is to choose the folder (automatic_checkpoint_naming): switch that off")
    with staged() as folder:
        accelerator.save_state(folder, **save_state)
        trainrun.report(metrics, Checkpoint.from_directory(folder), upload=upload)


def load_state(accelerator: Any, **load_state: Any) -> Optional[Checkpoint]:
    """Load the checkpoint to go on from, after prepare(), and return it; None at a fresh start. All ranks call it. `load_state`:
    more arguments of accelerator.load_state()."""
    checkpoint = trainrun.get_checkpoint()
    if checkpoint is not None:
        accelerator.load_state(checkpoint.path, **load_state)
    return checkpoint
