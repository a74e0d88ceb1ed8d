"""PyTorch Lightning in a worker.

    import lightning
    import trainrun.lightning

    trainer = lightning.Trainer(max_epochs=10, callbacks=[trainrun.lightning.ReportCallback()],
                                **trainrun.lightning.trainer_args())
    trainer.fit(model, data, ckpt_path=trainrun.lightning.ckpt_path())

The same with `pytorch_lightning`, if that was imported before this module."""

from __future__ import annotations

import atexit
import os
import shutil
import sys
from typing import Any, Optional

import trainrun

from ._checkpoint import Checkpoint
from ._errors import Failure
from ._staged import make_staging, staged

if "pytorch_lightning" in sys.modules and "lightning.pytorch" not in sys.modules:
    from pytorch_lightning.callbacks import Checkpoint as _CheckpointCallback
else:
    from lightning.pytorch.callbacks import Checkpoint as _CheckpointCallback  # type: ignore[assignment]

_FILE = "lightning.ckpt"


class ReportCallback(_CheckpointCallback):
    """Reports after each training epoch, with a checkpoint of all that Lightning restores: `epoch`, `step`, and what the model has
    logged. All ranks must have it. Lightning calls it after other callbacks, and adds no ModelCheckpoint of its own.

    every_n_steps: report so often within an epoch, too, without a checkpoint, unless somebody has asked for one. A stop in good
    order then ends the run at such a report, and keeps a checkpoint of that step. Lightning goes on after its step, but its loader
    begins with the epoch's first rows again, unless it keeps its own position (a stateful loader)."""

    def __init__(self, every_n_steps: Optional[int] = None) -> None:
        super().__init__()
        if every_n_steps is not None and every_n_steps < 1:
            raise Failure("invalid_argument", f"every_n_steps is {every_n_steps} (give at least 1, or None)")
        self._every, self._reported = every_n_steps, -1

    @staticmethod
    def _metrics(trainer: Any) -> dict[str, Any]:
        return {**trainer.callback_metrics, "epoch": trainer.current_epoch, "step": trainer.global_step}

    @staticmethod
    def _report_state(trainer: Any) -> None:
        with staged() as folder:
            trainer.save_checkpoint(os.path.join(folder, _FILE))  # on all ranks: rank 0 writes a replicated model's
            trainrun.report(ReportCallback._metrics(trainer), Checkpoint.from_directory(folder))

    def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
        def last_step() -> Checkpoint:
            folder = make_staging()
            atexit.register(shutil.rmtree, folder, ignore_errors=True)  # report() copies it after this function
            trainer.save_checkpoint(os.path.join(folder, _FILE))
            return Checkpoint.from_directory(folder)

        trainrun.on_stop(last_step)

    def on_fit_end(self, trainer: Any, pl_module: Any) -> None:
        trainrun.on_stop(None)

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        trainrun.step()
        if self._every is None or trainer.global_step % self._every != 0 or trainer.global_step == self._reported:
            return
        self._reported = trainer.global_step
        if trainrun.checkpoint_requested():
            self._report_state(trainer)
        else:
            trainrun.report(self._metrics(trainer))

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        self._report_state(trainer)


def ckpt_path() -> Optional[str]:
    """Return what to pass as `ckpt_path` to Trainer.fit(): the file of the checkpoint to go on from; None at a fresh start."""
    checkpoint = trainrun.get_checkpoint()
    if checkpoint is None:
        return None
    path = os.path.join(checkpoint.path, _FILE)
    if not os.path.exists(path):
        raise Failure("not_found", f"the checkpoint {checkpoint.path} has no {_FILE}: trainrun.lightning's ReportCallback did not make it")
    return path


def trainer_args() -> dict[str, Any]:
    """Return `devices` and `num_nodes` for Lightning's Trainer: the ranks that trainrun has started. Failure if the nodes have
    unequal numbers of them, which Lightning cannot have."""
    context = trainrun.get_context()
    devices, nodes, ranks = context.get_local_world_size(), context.get_node_count(), context.get_world_size()
    if devices * nodes != ranks:
        raise Failure(
            "invalid_argument",
            f"Lightning needs as many workers on each node: this one has {devices} of {ranks}, and there are {nodes} nodes (set "
            "scaling_config.workers_per_node, or num_workers to a multiple)",
        )
    return {"devices": devices, "num_nodes": nodes}
