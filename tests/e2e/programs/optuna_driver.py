"""optuna_driver.py MODE JOB.YAML: a search by Optuna, each trial a run of the job."""
import sys

import optuna

import trainrun
import trainrun.optuna

optuna.logging.set_verbosity(optuna.logging.WARNING)


def say(*words):
    print(*words, flush=True)


class AfterTwo(optuna.pruners.BasePruner):
    """Prune each odd trial at its second value."""

    def prune(self, study, trial):
        return trial.number % 2 == 1 and len(trial.intermediate_values) >= 2


def search(job):
    """Each trial has as many epochs as suggested; odd ones would run for ever."""

    def objective(trial):
        epochs = trial.suggest_int("epochs", 2, 4) if trial.number % 2 == 0 else 1000000
        return trainrun.optuna.run(trial, job, metric="loss", step="epoch", show_output=False,
                                   overrides={"train_loop_config.epochs": epochs, "train_loop_config.on_stop": True})

    study = optuna.create_study(study_name="my study/1", direction="minimize", pruner=AfterTwo(), sampler=optuna.samplers.TPESampler(seed=7))
    study.optimize(objective, n_trials=4)
    for trial in study.trials:
        result = trainrun.Result.from_path(trial.user_attrs["trainrun_run"])
        last = max(trial.intermediate_values)
        say(f"{trial.number} {trial.state.name} {result.run} {result.outcome} value {trial.value == trial.intermediate_values[last]} "
            f"steps {'all' if list(trial.intermediate_values) == list(range(last + 1)) else trial.intermediate_values} "
            f"checkpoint {result.checkpoint is not None}")
        if trial.number == 0:
            say("epochs", trial.params["epochs"] == last + 1, "frame", result.metrics_dataframe["loss"].tolist() == list(trial.intermediate_values.values()))


def wrong(job, metric, step):
    study = optuna.create_study()
    try:
        study.optimize(lambda trial: trainrun.optuna.run(trial, job, metric=metric, step=step, show_output=False), n_trials=1)
    except (trainrun.Failure, trainrun.TrainingFailed) as error:
        say(type(error).__name__, error)
    say([trial.state.name for trial in study.trials])


if __name__ == "__main__":
    if sys.argv[1] == "search":
        search(sys.argv[2])
    elif sys.argv[1] == "metric":
        wrong(sys.argv[2], "accuracy", None)
    else:
        wrong(sys.argv[2], "loss", "loss")
