"""A searcher for `train-run sweep` that asks Optuna for the values: python -m trainrun.optuna (docs/sweep.md).

Standard input and output belong to train-run; Optuna's own messages go to stderr."""

from __future__ import annotations

import argparse
import inspect
import json
import sys
from typing import Any, Optional, TextIO

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.trial import FrozenTrial, Trial, TrialState

_SAMPLERS = {"tpe": "TPESampler", "random": "RandomSampler", "gp": "GPSampler", "cmaes": "CmaEsSampler", "qmc": "QMCSampler"}
_PRUNERS = {"none": "NopPruner", "median": "MedianPruner", "hyperband": "HyperbandPruner", "halving": "SuccessiveHalvingPruner"}


def main(words: Optional[list[str]] = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m trainrun.optuna", description="A searcher for train-run sweep.")
    parser.add_argument("--storage", help="a URL of Optuna's, such as sqlite:///study.db; default: memory")
    parser.add_argument("--study", help="its name; default: the path of the sweep")
    parser.add_argument("--sampler", default="tpe", help=f"{', '.join(_SAMPLERS)}, or a class of optuna.samplers")
    parser.add_argument("--sampler-args", type=json.loads, default={}, metavar="JSON", help="the class's arguments")
    parser.add_argument("--pruner", default="median", help=f"{', '.join(_PRUNERS)}, or a class of optuna.pruners")
    parser.add_argument("--pruner-args", type=json.loads, default={}, metavar="JSON", help="the class's arguments")
    options = parser.parse_args(words)
    answers, sys.stdout = sys.stdout, sys.stderr  # a print() is no answer
    searcher: Optional[_Searcher] = None
    for line in sys.stdin:
        kind, body = next(iter(json.loads(line).items()))
        if kind == "begin":
            searcher = _Searcher(body, options, answers)
        elif searcher is not None and kind in ("ask", "report", "tell"):
            getattr(searcher, kind)(body)
    return 0


def _made(module: Any, names: dict[str, str], name: str, arguments: dict[str, Any], seed: int) -> Any:
    made = getattr(module, names.get(name, name), None)
    if made is None:
        raise SystemExit(f"python -m trainrun.optuna: {module.__name__} has no '{name}': try {', '.join(names)}")
    if "seed" in inspect.signature(made).parameters:
        arguments = {"seed": seed, **arguments}
    return made(**arguments)


class _Parameter:
    """A parameter of the sweep, and how Optuna sees it."""

    def __init__(self, parameter: dict[str, Any]):
        self.name = parameter["name"]
        self._values: dict[str, Any] = {}  # of a choice: lists and mappings, which Optuna sees as text
        self.distribution: BaseDistribution
        if "int" in parameter:
            self.distribution = IntDistribution(*parameter["int"])
        elif "uniform" in parameter:
            self.distribution = FloatDistribution(*parameter["uniform"])
        elif "log_uniform" in parameter:
            self.distribution = FloatDistribution(*parameter["log_uniform"], log=True)
        else:
            self._values = {json.dumps(value): value for value in parameter["choice"] if isinstance(value, (list, dict))}
            self.distribution = CategoricalDistribution([self.seen(value) for value in parameter["choice"]])

    def seen(self, value: Any) -> Any:
        return json.dumps(value) if isinstance(value, (list, dict)) else value

    def value(self, seen: Any) -> Any:
        return self._values.get(seen, seen) if isinstance(seen, str) else seen


class _Searcher:
    def __init__(self, begin: dict[str, Any], options: argparse.Namespace, answers: TextIO):
        self._answers = answers
        self._sweep = begin["sweep"]
        self._parameters = {one["name"]: _Parameter(one) for one in begin["parameters"] if "const" not in one}
        self._trials: dict[int, Trial] = {}
        self._stopped: set[int] = set()
        self._reports: dict[int, int] = {}
        seed = (begin["seed"] + len(begin["trials"])) % 2**32  # a later searcher does not draw the same again
        self._study = optuna.create_study(
            storage=options.storage,
            study_name=options.study or self._sweep,
            load_if_exists=True,
            direction="minimize" if begin["mode"] == "min" else "maximize",
            sampler=_made(optuna.samplers, _SAMPLERS, options.sampler, options.sampler_args, seed),
            pruner=_made(optuna.pruners, _PRUNERS, options.pruner, options.pruner_args, seed),
        )
        self._take_up(begin["trials"])
        waiting = [one.system_attrs.get("fixed_params") for one in self._own_trials() if one.state == TrialState.WAITING]
        for point in begin["points"][len(begin["trials"]) :]:
            seen = self._seen(point)
            if seen in waiting:  # an earlier searcher has put it into the storage
                waiting.remove(seen)
            else:
                self._enqueue(point)

    def ask(self, number: int) -> None:
        trial = self._begin(number)
        parameters = {name: self._parameters[name].value(seen) for name, seen in trial.params.items()}
        self._answer({"trial": number, "parameters": parameters})

    def report(self, report: dict[str, Any]) -> None:
        number, value = report["trial"], report["value"]
        trial = self._trials.get(number)
        if trial is None or value is None or number in self._stopped:
            return
        self._reports[number] = self._reports.get(number, 0) + 1
        # Optuna counts in whole steps.
        trial.report(value, int(report["time"]) if float(report["time"]).is_integer() else self._reports[number])
        if trial.should_prune():
            self._stopped.add(number)
            self._answer({"stop": number})

    def tell(self, ended: dict[str, Any]) -> None:
        trial = self._trials.pop(ended["trial"], None)
        if trial is None:
            return
        if ended["state"] == "finished" and ended["value"] is not None:
            self._study.tell(trial, ended["value"])
        else:
            self._study.tell(trial, state=TrialState.PRUNED if ended["state"] == "stopped" else TrialState.FAIL)

    def _take_up(self, known: list[dict[str, Any]]) -> None:
        """Go on with the trials of an earlier searcher: a storage has them already, memory does not."""
        own = self._own_trials()
        stored = {one.user_attrs["trainrun_trial"]: one for one in own if "trainrun_trial" in one.user_attrs}
        for one in known:
            number = one["trial"]
            there = stored.pop(number, None)
            if there is None:
                self._enqueue(one["parameters"])
                self._begin(number)
            elif there.state == TrialState.RUNNING:
                self._trials[number] = Trial(self._study, there._trial_id)
            if one["state"] != "running":
                self.tell(one)
        unnumbered = [one for one in own if "trainrun_trial" not in one.user_attrs]
        for one in [*stored.values(), *unnumbered]:  # proposed, and never started
            if one.state == TrialState.RUNNING:
                self._study.tell(one.number, state=TrialState.FAIL)

    def _own_trials(self) -> list[FrozenTrial]:
        """Return this sweep's, also of earlier searchers; others may use the study, too."""
        return [one for one in self._study.get_trials(deepcopy=False) if one.user_attrs.get("trainrun_sweep") == self._sweep]

    def _seen(self, values: dict[str, Any]) -> dict[str, Any]:
        return {name: self._parameters[name].seen(value) for name, value in values.items() if name in self._parameters}

    def _enqueue(self, values: dict[str, Any]) -> None:
        self._study.enqueue_trial(self._seen(values), user_attrs={"trainrun_sweep": self._sweep})

    def _begin(self, number: int) -> Trial:
        trial = self._study.ask({name: one.distribution for name, one in self._parameters.items()})
        trial.set_user_attr("trainrun_sweep", self._sweep)
        trial.set_user_attr("trainrun_trial", number)
        self._trials[number] = trial
        return trial

    def _answer(self, answer: dict[str, Any]) -> None:
        print(json.dumps(answer), file=self._answers, flush=True)
