"""Training with PyTorch that a driver steers pass by pass, as RaySGD's TorchTrainer and TrainingOperator did.

    from trainrun.operator import OperatorTrainer, TrainingOperator

    class Mnist(TrainingOperator):
        def setup(self, config):                      # in each worker
            model = Net()
            optimizer = torch.optim.SGD(model.parameters(), lr=config["lr"])
            self.register(models=model, optimizers=optimizer, criterion=torch.nn.CrossEntropyLoss())
            self.register_data(train_loader=DataLoader(...), validation_loader=DataLoader(...))

    if __name__ == "__main__":
        with OperatorTrainer(Mnist, train_loop_config={"lr": 0.1}, scaling_config={"num_workers": 2}) as trainer:
            while trainer.validate()["val_accuracy"] < 0.95:
                print(trainer.train())
            torch.save(trainer.get_model(), "mnist.pt")

Each pass ends with a checkpoint; a worker that dies costs the pass, which is done again. docs/driver.md has the rest."""

from __future__ import annotations

import itertools
import os
import shutil
import time
from pathlib import Path
from typing import Any, Callable, Iterable, Iterator, Optional, Union

import torch

from . import _context, _library, _report
from . import torch as _torch
from ._checkpoint import Checkpoint
from ._collectives import all_gather
from ._errors import Failure
from ._result import Result, open_checkpoint
from ._serve import poll, serve
from ._staged import staged
from ._trainer import Trainer

_STATE = "operator.pt"
_WAIT = 3600.0  # for the driver's next call; then the worker looks again
_PASS_TIME_MAX = 24 * 3600.0
_SETUP_TIME_MAX = 3600.0
_RETRIES = 3
_ANSWER_BYTES_MAX = 512 << 10  # of one rank, and of all together: what train-run takes, with a margin
_ANSWERS_BYTES_MAX = 7 << 20
_SCHEDULER_STEPS = ("batch", "epoch", "manual")


def _as_list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [] if value is None else [value]


def _plain(model: Any) -> Any:
    """Return the model in what makes its ranks train together."""
    return model.module if isinstance(model, torch.nn.parallel.DistributedDataParallel) else model


class _Means:
    """Means of a pass's metrics, weighted by each batch's num_samples."""

    def __init__(self) -> None:
        self._sums: dict[str, float] = {}
        self._last: dict[str, float] = {}
        self._weights: dict[str, int] = {}
        self.samples = self.batches = 0

    def add(self, metrics: dict[str, Any]) -> None:
        samples = int(metrics.get("num_samples", 1))
        self.samples += samples
        self.batches += 1
        for name, value in metrics.items():
            if name == "num_samples":
                continue
            self._sums[name] = self._sums.get(name, 0.0) + float(value) * samples
            self._weights[name] = self._weights.get(name, 0) + samples
            self._last[name] = float(value)

    def summary(self, last: bool) -> dict[str, Any]:
        result: dict[str, Any] = {"num_samples": self.samples, "batch_count": self.batches}
        for name, total in self._sums.items():
            result[name] = total / self._weights[name] if self._weights[name] else float("nan")
            if last:
                result[f"last_{name}"] = self._last[name]
        return result


class TrainingOperator:
    """The worker's side: override setup(), and what else is to be different."""

    def __init__(self, config: dict[str, Any]) -> None:
        self.config = config
        self.epoch = 0  #: passes over the data that are done
        self.global_step = 0  #: batches that are done
        self.device = _torch.get_device()
        self.world_rank = _context.get_context().get_world_rank()
        self.world_size = _context.get_context().get_world_size()
        self._models: list[Any] = []
        self._optimizers: list[Any] = []
        self._schedulers: list[Any] = []
        self._criterion: Any = None
        self._scheduler_step = "manual"
        self._fp16 = False
        self._scaler: Any = None
        self._train_loader: Any = None
        self._validation_loader: Any = None
        self._profile: Optional[dict[str, float]] = None
        self._passes = 0
        self._results: list[dict[str, Any]] = []  # of the newest pass, by rank
        self._trained_s = 0.0
        self._failure: Optional[Exception] = None  # of a pass

    # ---- what programs override

    def setup(self, config: dict[str, Any]) -> None:
        """Make models, optimizers and data, and register them. `config` is train_loop_config."""
        raise NotImplementedError(f"{type(self).__name__} has no setup()")

    def train_epoch(self, iterator: Iterable[Any], info: dict[str, Any]) -> dict[str, Any]:
        """Train one pass, and return its metrics: numbers. By default, train_batch() of each batch, and their means, weighted by
        num_samples; with num_samples, batch_count and last_… of each."""
        means = _Means()
        for index, batch in enumerate(iterator):
            means.add(self.train_batch(batch, {**info, "batch_idx": index, "global_step": self.global_step}))
            self.global_step += 1
            if self._scheduler_step == "batch":
                self.step_schedulers()
        return means.summary(last=True)

    def train_batch(self, batch: Any, info: dict[str, Any]) -> dict[str, Any]:
        """Train one batch, and return its metrics. By default, one model, optimizer and criterion, on (features, target)."""
        model, optimizer = self._only("train_batch")
        *features, target = batch
        with self._timed("fwd"), self._autocast():
            loss = self._criterion(model(*features), target)
        optimizer.zero_grad()
        with self._timed("grad"):
            (self._scaler.scale(loss) if self._scaler else loss).backward()
        with self._timed("apply"):
            if self._scaler:
                self._scaler.step(optimizer)
                self._scaler.update()
            else:
                optimizer.step()
        return {"train_loss": loss.item(), "num_samples": len(target)}

    def validate(self, iterator: Iterable[Any], info: dict[str, Any]) -> dict[str, Any]:
        """Validate on one pass over the data, and return the metrics. By default, validate_batch() of each batch, without gradients."""
        means = _Means()
        with torch.no_grad():
            for index, batch in enumerate(iterator):
                means.add(self.validate_batch(batch, {**info, "batch_idx": index}))
        return means.summary(last=False)

    def validate_batch(self, batch: Any, info: dict[str, Any]) -> dict[str, Any]:
        """Validate one batch. By default, val_loss, and val_accuracy if the model gives a score for each class."""
        model, _ = self._only("validate_batch")
        *features, target = batch
        with self._autocast():
            output = model(*features)
            metrics = {"val_loss": self._criterion(output, target).item(), "num_samples": len(target)}
        if output.dim() == 2 and target.dim() == 1 and not target.is_floating_point():
            metrics["val_accuracy"] = (output.argmax(dim=1) == target).float().mean().item()
        return metrics

    def state_dict(self) -> dict[str, Any]:
        """Return more state for checkpoints: tensors, numbers, texts, and lists and dicts of them."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take what state_dict() has returned."""

    # ---- what setup() calls

    def register(
        self,
        *,
        models: Any,
        optimizers: Any,
        criterion: Any = None,
        schedulers: Any = None,
        scheduler_step: Optional[str] = None,
        wrap_ddp: bool = True,
        ddp_args: Optional[dict[str, Any]] = None,
        use_fp16: bool = False,
    ) -> tuple[Any, ...]:
        """Move the models to this rank's device, make the ranks train them together, and return models, optimizers, and what else was
        given, in the form in which it was: one, or a list.

        scheduler_step: when the schedulers step: after each "batch", each "epoch" (pass), or "manual" (the driver's
        update_scheduler(), or step_schedulers()). use_fp16: float16 with scaled gradients on GPUs, bfloat16 on CPUs. ddp_args go to
        DistributedDataParallel; wrap_ddp=False leaves models as they are."""
        if schedulers is not None and scheduler_step not in _SCHEDULER_STEPS:
            raise Failure("invalid_argument", f"register: schedulers need scheduler_step: {', '.join(_SCHEDULER_STEPS)}")
        prepared = [
            _torch.prepare_model(model, parallel_strategy="ddp" if wrap_ddp else None, parallel_strategy_kwargs=ddp_args)
            for model in _as_list(models)
        ]
        self._models, self._optimizers, self._schedulers = prepared, _as_list(optimizers), _as_list(schedulers)
        self._criterion = criterion.to(self.device) if isinstance(criterion, torch.nn.Module) else criterion
        self._scheduler_step = scheduler_step or "manual"
        self._fp16 = use_fp16
        self._scaler = torch.amp.GradScaler("cuda") if use_fp16 and self.device.type == "cuda" else None
        returned = [prepared if isinstance(models, (list, tuple)) else prepared[0], optimizers]
        returned += [one for one in (self._criterion, schedulers) if one is not None]
        return tuple(returned)

    def register_data(self, *, train_loader: Any = None, validation_loader: Any = None, add_dist_sampler: bool = True) -> None:
        """Divide the rows of these DataLoaders among the ranks (add_dist_sampler=False: each rank has all), and put their batches on
        the rank's device."""
        prepare = lambda loader: None if loader is None else _torch.prepare_data_loader(loader, add_dist_sampler=add_dist_sampler)
        self._train_loader, self._validation_loader = prepare(train_loader), prepare(validation_loader)

    def per_worker_batch(self, global_batch: int) -> int:
        """Return a worker's part of a global batch, rounded down: the ranks must make equally many steps."""
        if global_batch < self.world_size:
            raise Failure("invalid_argument", f"a global batch of {global_batch} does not suffice for {self.world_size} workers")
        return global_batch // self.world_size

    def step_schedulers(self, metric: Optional[float] = None) -> None:
        """Step the schedulers; ReduceLROnPlateau takes the metric."""
        for scheduler in self._schedulers:
            if isinstance(scheduler, torch.optim.lr_scheduler.ReduceLROnPlateau):
                if metric is None:
                    raise Failure("invalid_argument", "ReduceLROnPlateau needs a metric: update_scheduler(metric)")
                scheduler.step(metric)
            else:
                scheduler.step()

    # ---- the worker

    @classmethod
    def run(cls, config: dict[str, Any]) -> None:
        """Do what the driver calls for, until the run is stopped."""
        operator = cls(config)
        operator.setup(config)
        checkpoint = _report.get_checkpoint()
        if checkpoint is not None:
            operator._restore(os.path.join(checkpoint.path, _STATE))
        for name in ("passes", "train", "validate", "save", "load", "update_scheduler", "apply"):
            serve(f"operator.{name}", getattr(operator, f"_on_{name}"))
        if checkpoint is None:
            operator._commit({"epoch": 0})  # a pass that fails is done again from here; its report() runs calls
        while True:
            if operator._failure is not None:
                raise operator._failure
            poll(_WAIT)

    def _guarded(self, run_pass: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Do a pass. An exception ends the worker once its caller knows it: the other ranks may wait for this one in a collective
        call, and the models are no longer the same."""
        if self._failure is not None:
            raise self._failure  # called before this worker has ended by it
        try:
            answer = {"metrics": run_pass()}
            size = len(_library.to_json(answer))
            if size > min(_ANSWER_BYTES_MAX, _ANSWERS_BYTES_MAX // self.world_size):
                raise Failure("invalid_argument", f"the metrics have {size} bytes of JSON: return less")
            return answer
        except Exception as error:
            self._failure = error
            raise

    def _on_passes(self) -> int:
        return self._passes

    def _on_train(self, argument: dict[str, Any]) -> dict[str, Any]:
        number = argument["pass"]
        if number < self._passes:
            return {"again": self._results if self.world_rank == 0 else []}  # it was done, and an answer was lost with its worker
        if number > self._passes:
            return _refusal(f"the workers have restored pass {self._passes}, and pass {number} is to follow: a checkpoint was not kept")
        if self._train_loader is None:
            return _refusal("setup() has registered no train_loader")
        return self._guarded(lambda: self._train_pass(argument))

    def _train_pass(self, argument: dict[str, Any]) -> dict[str, Any]:
        begun = time.monotonic()
        self._profile = {"fwd": 0.0, "grad": 0.0, "apply": 0.0} if argument["profile"] else None
        for model in self._models:
            model.train()
        sampler = getattr(self._train_loader, "sampler", None)
        if hasattr(sampler, "set_epoch"):
            sampler.set_epoch(self.epoch)
        info = {**argument["info"], "epoch": self.epoch}
        metrics = dict(self.train_epoch(_first(self._train_loader, argument["num_steps"]), info))
        if self._scheduler_step == "epoch":
            self.step_schedulers()
        self._passes += 1
        self.epoch += 1
        took = time.monotonic() - begun
        self._trained_s += took
        metrics |= {"epoch": self.epoch, "time_this_iter_s": took, "time_total_s": self._trained_s}
        if self._profile is not None:
            batches = max(1, metrics.get("batch_count", 1))
            metrics |= {f"mean_{part}_s": seconds / batches for part, seconds in self._profile.items()}
        self._results = all_gather(metrics)
        self._commit(metrics)
        return metrics

    def _on_validate(self, argument: dict[str, Any]) -> dict[str, Any]:
        if self._validation_loader is None:
            return _refusal("setup() has registered no validation_loader")
        return self._guarded(lambda: self._validation_pass(argument))

    def _validation_pass(self, argument: dict[str, Any]) -> dict[str, Any]:
        for model in self._models:
            model.eval()
        info = {**argument["info"], "epoch": self.epoch}
        return {"epoch": self.epoch, **self.validate(_first(self._validation_loader, argument["num_steps"]), info)}

    def _on_save(self) -> str:
        """Commit a checkpoint, and return its name."""
        return self._commit({"epoch": self.epoch})

    def _on_load(self, path: str) -> dict[str, Any]:
        missing = all_gather(None if os.path.isfile(path) else f"{path} is not there on the node of rank {self.world_rank}")
        for why in missing:
            if why is not None:
                return _refusal(why)
        return self._guarded(lambda: self._load(path))

    def _load(self, path: str) -> dict[str, Any]:
        self._restore(path)
        self._commit({"epoch": self.epoch})
        return {"passes": self._passes}

    def _on_update_scheduler(self, metric: Optional[float]) -> list[float]:
        self.step_schedulers(metric)
        self._commit({"epoch": self.epoch})
        return [group["lr"] for optimizer in self._optimizers for group in optimizer.param_groups]

    def _on_apply(self, argument: dict[str, Any]) -> Any:
        method = argument["method"]
        if method.startswith("_") or not callable(getattr(self, method, None)):
            raise Failure("not_found", f"{type(self).__name__} has no method {method}()")
        return getattr(self, method)(*argument["arguments"])

    def _commit(self, metrics: dict[str, Any]) -> str:
        """Report a checkpoint, wait until it is committed, and return its name. Rank 0 writes what all ranks have in common."""
        with staged() as folder:
            if self.world_rank == 0:
                torch.save(self._state(), os.path.join(folder, _STATE))
            _report.report(metrics, Checkpoint.from_directory(folder), upload="sync")
        kept = _report.wait_for_checkpoint()
        if kept is None:
            raise Failure("unavailable", "the checkpoint was not kept: the run's log says why")
        return os.path.basename(kept)

    def _state(self) -> dict[str, Any]:
        return {
            "models": [_plain(model).state_dict() for model in self._models],
            "optimizers": [optimizer.state_dict() for optimizer in self._optimizers],
            "schedulers": [scheduler.state_dict() for scheduler in self._schedulers],
            "scaler": self._scaler.state_dict() if self._scaler else {},
            "operator": self.state_dict(),
            "epoch": self.epoch,
            "global_step": self.global_step,
            "passes": self._passes,
            "results": self._results,
            "trained_s": self._trained_s,
        }

    def _restore(self, path: str) -> None:
        state = torch.load(path, map_location=self.device, weights_only=True)  # runs no code of the file
        for kind, own in (("models", self._models), ("optimizers", self._optimizers), ("schedulers", self._schedulers)):
            if len(state[kind]) != len(own):
                raise Failure("invalid_argument", f"{path} has {len(state[kind])} {kind}, and setup() has registered {len(own)}")
            for part, values in zip(own, state[kind]):
                _plain(part).load_state_dict(values)
        if self._scaler and state["scaler"]:
            self._scaler.load_state_dict(state["scaler"])
        self.load_state_dict(state["operator"])
        self.epoch, self.global_step, self._passes = state["epoch"], state["global_step"], state["passes"]
        self._results, self._trained_s = state["results"], state["trained_s"]

    def _only(self, what: str) -> tuple[Any, Any]:
        if len(self._models) != 1 or len(self._optimizers) != 1 or self._criterion is None:
            raise Failure(
                "invalid_argument", f"{type(self).__name__} needs its own {what}(): the default one takes one model, optimizer and criterion"
            )
        return self._models[0], self._optimizers[0]

    def _autocast(self) -> Any:
        kind = torch.float16 if self.device.type == "cuda" else torch.bfloat16
        return torch.autocast(self.device.type, dtype=kind, enabled=self._fp16)

    def _timed(self, part: str) -> _Timed:
        return _Timed(self._profile, part, self.device)


class _Timed:
    """Adds the time of a block to a part of the profile, if there is one; on GPUs with what they compute in it."""

    def __init__(self, profile: Optional[dict[str, float]], part: str, device: torch.device) -> None:
        self._profile, self._part, self._device = profile, part, device

    def _now(self) -> float:
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
        return time.perf_counter()

    def __enter__(self) -> None:
        if self._profile is not None:
            self._begun = self._now()

    def __exit__(self, *_: Any) -> None:
        if self._profile is not None:
            self._profile[self._part] += self._now() - self._begun


def _first(loader: Any, count: Optional[int]) -> Iterator[Any]:
    return iter(loader) if count is None else itertools.islice(iter(loader), count)


def _refusal(why: str) -> dict[str, Any]:
    """What a call that is refused answers: it changes nothing, so that the workers can go on."""
    return {"refused": why, "kind": "invalid_argument"}


def _by_rank(call: str, answers: dict[int, dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the results of the ranks. Of a pass that had been done before, each answer has those of all ranks."""
    for answer in answers.values():
        if "refused" in answer:
            raise Failure(answer["kind"], f"{call}: {answer['refused']}")
    if "again" in answers[0]:
        again: list[dict[str, Any]] = answers[0]["again"]
        return again
    return [answers[rank]["metrics"] for rank in sorted(answers)]


def _reduced(ranks: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the means over the ranks, weighted by their num_samples, of which the sum is the result's; rank 0's of what is no mean.
    NaN travels as None."""
    weights = [float(one.get("num_samples", 1)) for one in ranks]
    result = dict(ranks[0])
    for name, value in ranks[0].items():
        if name in ("epoch", "batch_count") or isinstance(value, bool) or not (value is None or isinstance(value, (int, float))):
            continue
        values = [float("nan") if one.get(name) is None else one[name] for one in ranks]
        if name == "num_samples":
            result[name] = sum(values)
        elif sum(weights) > 0:
            result[name] = sum(weight * number for weight, number in zip(weights, values) if weight > 0) / sum(weights)
    return result


class OperatorTrainer:
    """The driver's side: starts the workers, and has them train and validate. Arguments are those of Trainer. Without
    failure_config, three failures of workers are survived. The workers' state, and so the driver's next pass, survives them; the
    driver's own death stops the run in good order, and resume_from_checkpoint goes on with it."""

    def __init__(self, operator: type[TrainingOperator], **arguments: Any) -> None:
        run_config = {"failure_config": {"max_failures": 3}, **arguments.pop("run_config", {})}
        self._trainer = Trainer(operator.run, run_config=run_config, **arguments)
        self._passes: Optional[int] = None  # done
        self._trainer.start()

    def train(
        self,
        num_steps: Optional[int] = None,
        *,
        reduce_results: bool = True,
        profile: bool = False,
        max_retries: int = 3,
        info: Optional[dict[str, Any]] = None,
        timeout: float = _PASS_TIME_MAX,
    ) -> Any:
        """Train one pass over the data, or its first num_steps batches, and return its metrics: num_samples, batch_count, epoch,
        train_loss, last_train_loss, time_this_iter_s, time_total_s, or what train_epoch() returns. reduce_results=False: a list by
        rank. profile: with mean_fwd_s, mean_grad_s and mean_apply_s of a batch. `info` goes to the operator's functions. A pass
        whose workers die is done again, max_retries times. An exception of the operator is raised as CallFailed, and the workers
        start again from the pass before, because some of them may wait for the one that raised it."""
        argument = {"num_steps": num_steps, "profile": profile, "info": info or {}}
        if self._passes is None:
            self._passes = self._call("passes", None, _SETUP_TIME_MAX, _RETRIES)[0]
        ranks = _by_rank("train", self._call("train", {"pass": self._passes, **argument}, timeout, max_retries, True))
        self._passes += 1
        return _reduced(ranks) if reduce_results else ranks

    def validate(
        self,
        num_steps: Optional[int] = None,
        *,
        reduce_results: bool = True,
        info: Optional[dict[str, Any]] = None,
        timeout: float = _PASS_TIME_MAX,
    ) -> Any:
        """Validate, and return the metrics: num_samples, batch_count, epoch, val_loss, val_accuracy, or what validate() returns."""
        ranks = _by_rank("validate", self._call("validate", {"num_steps": num_steps, "info": info or {}}, timeout, _RETRIES, True))
        return _reduced(ranks) if reduce_results else ranks

    def update_scheduler(self, metric: Optional[float] = None) -> list[float]:
        """Step the schedulers of scheduler_step="manual", and return the learning rates."""
        rates: list[float] = self._call("update_scheduler", metric)[0]
        return rates

    def apply_all_operators(self, method: str, *arguments: Any, timeout: float = 30.0) -> list[Any]:
        """Call a method of every worker's operator with JSON values, and return the answers by rank."""
        answers = self._call("apply", {"method": method, "arguments": list(arguments)}, timeout)
        return [answers[rank] for rank in sorted(answers)]

    def save(self, path: Union[str, os.PathLike[str]]) -> str:
        """Write the state of models, optimizers, schedulers and operator into a file, which load() reads. Return its path."""
        target = Path(path)
        partial = target.with_name(f".{target.name}.partial")
        shutil.copyfile(self._state_file(), partial)
        os.replace(partial, target)
        return str(target)

    def load(self, path: Union[str, os.PathLike[str]]) -> None:
        """Go on from what save() has written. The workers' nodes must see the file."""
        self._passes = None  # asked for anew, should the answer be lost
        answers = self._call("load", os.path.abspath(path), 600.0, 0, True)
        self._passes = _by_rank("load", answers)[0]["passes"]

    def get_model(self) -> Any:
        """Return the model's state_dict on the CPU; a list, if there are several models."""
        models = torch.load(self._state_file(), map_location="cpu", weights_only=True)["models"]
        return models[0] if len(models) == 1 else models

    def shutdown(self) -> Result:
        """Stop the run in good order, and return its result."""
        self._trainer.stop()
        return self._trainer.fit()

    def __enter__(self) -> OperatorTrainer:
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if kind is None:
            self.shutdown()
        else:
            self._trainer.__exit__(kind, error, trace)

    def _state_file(self) -> str:
        name = self._call("save", None, 600.0, _RETRIES)[0]
        checkpoint = open_checkpoint(Path(self._trainer.folder, "checkpoints", name))
        if checkpoint is None:
            raise Failure("unavailable", f"{name} cannot be read here: the run's storage is elsewhere (use train-run checkpoint get)")
        return os.path.join(checkpoint.path, _STATE)

    def _call(self, name: str, argument: Any, timeout: float = 30.0, retries: int = 0, ends_worker: bool = False) -> dict[int, Any]:
        try:
            return self._trainer.call(f"operator.{name}", argument, timeout=timeout, retries=retries, ends_worker=ends_worker)
        except Failure as failure:
            if failure.kind == "unavailable":  # the run has ended, and its own error says why
                self._trainer.result(force=True)
            raise
        finally:
            self._trainer.catch_up()
