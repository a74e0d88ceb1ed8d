"""A run as a trial of Ray Tune.

    from ray import tune
    import trainrun.tune

    trainable = trainrun.tune.trainable("job.yaml", cpus=4)
    tuner = tune.Tuner(trainable, param_space={"lr": tune.loguniform(1e-5, 1e-1)},
                       tune_config=tune.TuneConfig(metric="val_loss", mode="min", num_samples=20,
                                                   scheduler=tune.schedulers.ASHAScheduler()))

A trial's config lies over the spec's train_loop_config; keys with a dot are paths of the spec ("run_config.stop.epoch")."""

from __future__ import annotations

import os
from typing import Any, Callable, Optional, Union

from ray import tune

from ._trainer import Trainer


def _overrides(config: dict[str, Any]) -> dict[str, Any]:
    return {key if "." in key else f"train_loop_config.{key}": value for key, value in config.items()}


def trainable(
    job: Union[str, os.PathLike[str], Callable[..., Any], None] = None,
    *,
    cpus: float = 1,
    gpus: float = 0,
    storage_path: Optional[str] = None,
    **trainer: Any,
) -> Callable[[dict[str, Any]], None]:
    """Return a trainable for Tuner. Each trial is a run, called after the trial; what rank 0 reports is Tune's result, once for
    each round, with `trainrun_run`, the run's folder. Tune counts `cpus` and `gpus` for the workers of a trial; train-run starts
    them on its own, on the node of the trial or in the cluster of the spec.

    Tune ends a trial by killing its process, and what that has started: train-run, too. The workers then end by themselves, after
    the spec's orphan_timeout, which is 10 s here unless overrides set it. `trainer`: the arguments of Trainer."""
    if not callable(job) and job is not None:
        job = os.path.abspath(job)  # Tune's workers have folders of their own
    own = {"run_config.failure_config.orphan_timeout": "10s", **(trainer.pop("overrides", None) or {})}

    def run(config: dict[str, Any]) -> None:
        overrides = {**own, **_overrides(config), "run_config.name": tune.get_context().get_trial_name()}
        if storage_path is not None:
            overrides["run_config.storage_path"] = storage_path
        with Trainer(job, overrides=overrides, **trainer) as running:
            for round in running.iterate():
                tune.report({**round.reports[0], "trainrun_run": running._log.folder})
            running.result()

    limited: Callable[[dict[str, Any]], None] = tune.with_resources(run, {"CPU": cpus, "GPU": gpus})
    return limited
