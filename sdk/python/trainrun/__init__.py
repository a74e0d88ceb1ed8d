"""The SDK of trainrun for Python: what a worker of a run reports, and what it may ask.

    import trainrun

    checkpoint = trainrun.get_checkpoint()
    epoch = checkpoint.to_value()["epoch"] + 1 if checkpoint else 0
    while epoch < 10:
        ...
        trainrun.report({"loss": loss}, trainrun.Checkpoint.from_value({"epoch": epoch}))
        epoch += 1

`train-run job.yaml` starts the program. Started by hand, the same program is a world of one. Names are Ray Train's where it
has them. The functions call libtrainrun.so (<train/train_c.h>); nothing else is needed.

The first call of any function connects to the run. A child of os.fork() must not call any of them: each raises Failure there.
"""

from ._calls import CallFailed
from ._checkpoint import Checkpoint, ReportedCheckpoint
from ._collectives import all_gather, barrier, broadcast_from_rank_zero, once_per_node, reduce
from ._context import Context, get_context
from ._datasets import ArrowBatch, Batch, BatchIterator, DatasetShard, get_dataset_shard
from ._errors import Failure, Stopped
from ._failures import (
    AttemptFailure,
    ClusterError,
    ControllerError,
    HangError,
    PreemptionError,
    RankFailure,
    SpecError,
    TrainingFailed,
    WorkerGroupError,
)
from ._hook import install as _install_hook
from ._progress import phase, step
from ._report import (
    checkpoint_requested,
    get_all_reported_checkpoints,
    get_checkpoint,
    histogram,
    on_stop,
    report,
    report_validation,
    set_result,
    should_stop,
    validating,
    wait_for_checkpoint,
)
from ._result import Result
from ._rounds import Round
from ._serve import poll, serve
from ._trainer import Callback, Trainer
from ._warm_trainer import WarmTrainer

__all__ = [
    "ArrowBatch",
    "AttemptFailure",
    "Batch",
    "BatchIterator",
    "CallFailed",
    "Callback",
    "Checkpoint",
    "ClusterError",
    "Context",
    "ControllerError",
    "DatasetShard",
    "Failure",
    "HangError",
    "PreemptionError",
    "RankFailure",
    "ReportedCheckpoint",
    "Result",
    "Round",
    "SpecError",
    "Stopped",
    "Trainer",
    "TrainingFailed",
    "WarmTrainer",
    "WorkerGroupError",
    "all_gather",
    "barrier",
    "broadcast_from_rank_zero",
    "checkpoint_requested",
    "get_all_reported_checkpoints",
    "get_checkpoint",
    "get_context",
    "get_dataset_shard",
    "histogram",
    "on_stop",
    "once_per_node",
    "phase",
    "poll",
    "reduce",
    "report",
    "report_validation",
    "serve",
    "set_result",
    "should_stop",
    "step",
    "validating",
    "wait_for_checkpoint",
]

_install_hook()


def __getattr__(name: str) -> str:
    """Return __version__, the version of the wheel. A source tree has none."""
    if name == "__version__":
        import importlib.metadata

        try:
            return importlib.metadata.version("trainrun")
        except importlib.metadata.PackageNotFoundError:
            pass
    raise AttributeError(f"module 'trainrun' has no attribute '{name}'")
