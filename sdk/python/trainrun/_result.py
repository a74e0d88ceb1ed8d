"""What a run has left: metrics, checkpoints, results, and how it ended."""

from __future__ import annotations

import json
import math
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Optional, Union

from ._checkpoint import Checkpoint
from ._errors import Failure


_JSON_BYTES_MAX = 1 << 30  # run.json has the results of all ranks, each up to 1 MiB


def read_json(path: Path) -> dict[str, Any]:
    """Return the file's JSON object. Failure names a file that is something else."""
    if path.stat().st_size > _JSON_BYTES_MAX:
        raise Failure("corrupt", f"{path}: it has more than {_JSON_BYTES_MAX >> 20} MiB")
    try:
        found = json.loads(path.read_bytes())
    except ValueError as error:
        raise Failure("corrupt", f"{path}: {error}") from None
    if not isinstance(found, dict):
        raise Failure("corrupt", f"{path}: it is no JSON object")
    return found


def open_checkpoint(folder: Path) -> Optional[Checkpoint]:
    """Open a committed checkpoint. None if it is not whole, or not there: in an object store, or removed by retention."""
    try:
        return Checkpoint.open(folder)
    except Failure as failure:
        if failure.kind in ("corrupt", "not_found"):
            return None
        raise


@dataclass
class Result:
    """A run that has ended, or what there is of one that failed."""

    run: str = ""  #: its name
    path: str = ""  #: its folder; for a run in an object store, the working copy
    outcome: str = ""  #: succeeded, failed, interrupted, preempted, refused, replaced
    exit_code: int = 0  #: train-run's
    cause: str = ""  #: why it did not succeed, or why it was stopped
    metrics: dict[str, Any] = field(default_factory=dict)  #: rank 0's last report
    return_value: Any = None  #: what rank 0's loop returned, or passed to set_result()
    results: list[Any] = field(default_factory=list)  #: the same by rank
    error: Optional[BaseException] = None  #: what fit() raised with it
    _newest: str = ""
    _best: str = ""

    @classmethod
    def from_path(cls, run: Union[str, os.PathLike[str]]) -> Result:
        """Read a run's folder. Failure ("not_found") if the run has not ended, or is none."""
        folder = Path(run)
        if not (folder / "exit.json").is_file():
            raise Failure(
                "not_found",
                f"'{folder}' is not the folder of a run that has ended: it has no exit.json (train-run status {folder} says more)",
            )
        end = read_json(folder / "exit.json")
        whole = read_json(folder / "run.json") if (folder / "run.json").is_file() else {}
        return cls(
            run=end.get("run") or "",
            path=str(folder),
            outcome=end.get("outcome") or "",
            exit_code=end.get("code") or 0,
            cause=end.get("cause") or "",
            metrics=end.get("metrics") or {},
            return_value=end.get("result"),
            results=whole.get("results") or [],
            _newest=end.get("checkpoint") or "",
            _best=end.get("best_checkpoint") or "",
        )

    def _at(self, path: str) -> Optional[Checkpoint]:
        return open_checkpoint(Path(self.path) / "checkpoints" / Path(path).name) if path else None

    @property
    def checkpoint(self) -> Optional[Checkpoint]:
        """The newest checkpoint."""
        return self._at(self._newest)

    @property
    def best_checkpoint(self) -> Optional[Checkpoint]:
        """The best one by the spec's score_attribute."""
        return self._at(self._best)

    @property
    def best_checkpoints(self) -> list[tuple[Checkpoint, dict[str, Any]]]:
        """The checkpoints that are kept, oldest first, with the metrics that rank 0 reported with them."""
        folders = sorted(Path(self.path, "checkpoints").glob("checkpoint_*")) if self.path else []
        kept = [checkpoint for folder in folders if (checkpoint := open_checkpoint(folder))]
        return [(checkpoint, checkpoint.metrics) for checkpoint in kept]

    def get_best_checkpoint(self, metric: str, mode: str = "max") -> Optional[Checkpoint]:
        """Return the kept checkpoint whose metric is best, of equal ones the newest; None if none has it."""
        if mode not in ("max", "min"):
            raise Failure("invalid_argument", f"get_best_checkpoint: the mode is '{mode}': write max or min")
        best: Optional[Checkpoint] = None
        best_value = math.nan
        for checkpoint, metrics in self.best_checkpoints:
            value = metrics.get(metric)
            if not isinstance(value, (int, float)) or isinstance(value, bool) or math.isnan(value):
                continue
            if best is None or (value >= best_value if mode == "max" else value <= best_value):
                best, best_value = checkpoint, value
        return best

    @property
    def metrics_dataframe(self) -> Any:
        """The metrics of rank 0's reports as a pandas.DataFrame, a row each. Needs pandas, and the callback csv of the spec (it
        has it by default)."""
        try:
            import pandas
        except ImportError:
            raise Failure("unavailable", "metrics_dataframe needs pandas: pip install pandas") from None
        path = Path(self.path) / "progress.csv"
        if not path.is_file():
            raise Failure("not_found", f"there is no {path}: run_config.callbacks does not have csv, or nothing was reported")
        return pandas.read_csv(path)
