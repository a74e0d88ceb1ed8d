"""A run as a trial of Optuna: its reports are the trial's intermediate values, and a pruner may stop it.

    import optuna, trainrun.optuna

    def objective(trial):
        overrides = {"train_loop_config.lr": trial.suggest_float("lr", 1e-5, 1e-1, log=True)}
        return trainrun.optuna.run(trial, "job.yaml", metric="val_loss", overrides=overrides)

    study = optuna.create_study(direction="minimize", pruner=optuna.pruners.MedianPruner())
    study.optimize(objective, n_trials=20)

Suggest values here, in the driver, and pass them by overrides or train_loop_config: each rank would draw its own."""

from __future__ import annotations

import math
import os
from typing import Any, Callable, Optional, Union

import optuna

from ._errors import Failure
from ._trainer import Trainer


def run(
    trial: optuna.trial.Trial,
    job: Union[str, os.PathLike[str], Callable[..., Any], None] = None,
    *,
    metric: str,
    step: Optional[str] = None,
    **trainer: Any,
) -> float:
    """Run a job as the trial, and return rank 0's last value of `metric`. Raises optuna.TrialPruned once a pruned run has stopped
    in good order, and what Trainer.fit() raises.

    The trial is told of each round (the n-th report of every rank) whose rank 0 has the metric. `step`: the metric that counts; by
    default the round's ordinal, which goes on after a restart. A round that is done again after a failure is not told twice.
    `trainer`: the arguments of Trainer. Unless they name the run, it is called after the study and the trial. In a study with two
    or more objectives there is no pruning."""
    overrides = dict(trainer.pop("overrides", None) or {})
    if "name" not in trainer.get("run_config", {}) and "run_config.name" not in overrides:
        overrides["run_config.name"] = _name(trial)
    prunes = len(trial.study.directions) == 1
    value: Optional[float] = None
    told = -math.inf
    with Trainer(job, overrides=overrides, **trainer) as running:
        for round in running.iterate():
            metrics = round.reports[0]
            found = metrics.get(metric)
            if not isinstance(found, (int, float)) or isinstance(found, bool):
                continue
            value = float(found)
            at = round.ordinal if step is None else _step(metrics, step)
            if not prunes or at <= told:
                continue
            told = at
            trial.report(value, at)
            if trial.should_prune():
                trial.set_user_attr("trainrun_run", _path(running))
                running.result(force=True)
                raise optuna.TrialPruned(f"pruned at step {at} with {metric} {value}")
        result = running.result()
    assert result is not None
    trial.set_user_attr("trainrun_run", result.path)
    if value is None:
        known = ", ".join(sorted(result.metrics)) or "nothing"
        raise Failure("not_found", f"rank 0 has reported no number '{metric}': it reports {known}")
    return value


def _name(trial: optuna.trial.Trial) -> str:
    study = "".join(one if one.isascii() and one.isalnum() or one in "._-" else "-" for one in trial.study.study_name).lstrip("._-")[:100]
    return f"{study or 'study'}-trial-{trial.number}"


def _step(metrics: dict[str, Any], name: str) -> int:
    found = metrics.get(name)
    if not isinstance(found, (int, float)) or isinstance(found, bool) or found != int(found):
        raise Failure("invalid_argument", f"rank 0's '{name}' is to count steps, and is {found!r}")
    return int(found)


def _path(running: Trainer) -> str:
    return running._log.folder


if __name__ == "__main__":
    import sys

    from ._optuna_searcher import main

    sys.exit(main())
