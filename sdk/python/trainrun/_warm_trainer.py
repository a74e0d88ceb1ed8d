"""Several runs by the same workers (docs/driver.md)."""

from __future__ import annotations

import contextlib
import os
import re
import time
import weakref
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Callable, Optional, Union

from ._checkpoint import Checkpoint
from ._driver import DriverProcess
from ._errors import Failure
from ._failures import TrainingFailed
from ._kept_workers import PATIENCE, KeptWorkers
from ._loop import loop_word
from ._resolved import escaped, unescaped, value_of
from ._result import Result
from ._trainer import Callback, Trainer, set_words

_Path = Union[str, "os.PathLike[str]"]


class _WarmRun(Trainer):
    """One of the runs."""

    def __init__(self, kept: KeptWorkers, name: str, words: list[str], more_words: list[str], arguments: dict[str, Any]) -> None:
        super().__init__(**{key: arguments[key] for key in ("callbacks", "program", "show_output") if key in arguments})
        self._words = words  # the same for all runs, so that their commands are
        self.name = name
        self._kept, self._more_words = kept, more_words
        self.keeps_workers = True

    def _words_to_run(self) -> list[str]:
        self._kept.check_active()
        kept = self._kept.words() if self.keeps_workers else []
        words = super()._words_to_run()
        end = words.index("--") if "--" in words else len(words)  # the program and its arguments
        return words[:end] + self._more_words + kept + words[end:]

    def _earlier_workers_may_go(self) -> None:
        self._kept.let_go()

    def _workers_left(self, process: DriverProcess) -> None:
        self._kept.hold(process, self.folder)

    def is_going_on(self) -> bool:
        return self._process is not None and not self._over and not self._has_ended()

    def conclude(self) -> None:
        """Tell the callbacks of the run's end if nobody has asked for its result; stop it if it goes on."""
        if self._process is not None and not self._over:
            with contextlib.suppress(TrainingFailed):
                self.result(force=True)


class WarmTrainer:
    """Runs a job several times. The workers stay between the runs, with the program's global variables and what it has loaded, so
    that the next run begins at once.

        with trainrun.WarmTrainer(loop, scaling_config={"num_workers": 4}) as trainer:
            for lr in (1e-2, 1e-3):
                print(trainer.run({"lr": lr}).metrics)

    Each run has its own folder, checkpoints and result, as if a Trainer had run it: run_001, run_002 and so on in logdir. The first
    run starts the workers. If one has died since, or a run has failed, the next run starts new ones. The arguments are those of
    Trainer; callbacks are told of all runs."""

    def __init__(self, job: Union[_Path, Callable[..., Any], None] = None, *, logdir: Optional[_Path] = None, **arguments: Any) -> None:
        """logdir: the folder of the runs; by default <name> or warm_<date>_<time> in the spec's storage_path. Runs that are there
        already stay, and the numbers go on after them."""
        self._arguments = arguments
        self._trainer = Trainer(job, **arguments)  # refuses wrong arguments; has the words of all runs
        self._loop = self._word_of(job) if callable(job) else None
        self._given_logdir = os.fspath(logdir) if logdir is not None else None
        self._logdir = ""
        self._has_workers = True  # else the spec says num_workers: 0
        self._number = 0
        self._newest: Optional[_WarmRun] = None
        self._latest_run_dir: Optional[str] = None
        self._kept = KeptWorkers()
        weakref.finalize(self, self._kept.end)

    def run(
        self,
        config: Optional[dict[str, Any]] = None,
        *,
        callbacks: Iterable[Callback] = (),
        loop: Optional[Callable[..., Any]] = None,
        resume_from_checkpoint: Union[_Path, Checkpoint, None] = None,
    ) -> Result:
        """Run the job once more, and return its result. Raises what Trainer.fit() raises. `config`: the train_loop_config of this
        run, in place of the constructor's. callbacks: are told of this run, too. `loop`: what the workers call in this run, in place
        of the constructor's loop."""
        return self.next(config, callbacks=callbacks, loop=loop, resume_from_checkpoint=resume_from_checkpoint).fit()

    def next(
        self,
        config: Optional[dict[str, Any]] = None,
        *,
        callbacks: Iterable[Callback] = (),
        loop: Optional[Callable[..., Any]] = None,
        resume_from_checkpoint: Union[_Path, Checkpoint, None] = None,
    ) -> Trainer:
        """Return the Trainer of the next run, to iterate() over its rounds, or to call its workers. The arguments are those of
        run(). One run goes on at a time: Failure if the one before has not ended."""
        self._conclude_newest()
        words = self._words_of_run(config, loop, resume_from_checkpoint)
        self._number = _number_after(self.logdir, self._number)
        name = f"run_{self._number:03d}"
        place = {"name": name, "run_config.name": name, "run_config.storage_path": escaped(self.logdir)}
        run = _WarmRun(self._kept, name, self._trainer._words, set_words(place) + words, self._arguments)
        run.keeps_workers = self._has_workers
        for callback in callbacks:
            run.add_callback(callback)
        self._newest = run
        return run

    @property
    def logdir(self) -> str:
        """The folder of the runs."""
        if not self._logdir:
            self._read_spec()
        return self._logdir

    @property
    def latest_run_dir(self) -> Optional[str]:
        """The newest run's folder; None before the first one."""
        return (self._newest.folder if self._newest else "") or self._latest_run_dir

    def shutdown(self, patience: float = PATIENCE) -> None:
        """End the workers: their programs have so many seconds to end by themselves; with 0 or less they are killed at once. A run that goes on
        is stopped in good order before. Nothing can be run after it."""
        if self._newest is not None:
            self._newest.conclude()
        self._kept.end(patience)

    def __enter__(self) -> WarmTrainer:
        return self

    def __exit__(self, kind: Any, error: Optional[BaseException], trace: Any) -> None:
        if error is not None and self._newest is not None:
            self._newest.__exit__(kind, error, trace)
        self.shutdown()

    def _conclude_newest(self) -> None:
        self._kept.check_active()
        if self._newest is None:
            return
        if self._newest.is_going_on():
            raise Failure(
                "invalid_argument",
                f"{self._newest.name} of this WarmTrainer has not ended: take its rounds to their end, or call its result(force=True)",
            )
        self._newest.conclude()
        self._latest_run_dir = self.latest_run_dir

    def _words_of_run(
        self, config: Optional[dict[str, Any]], loop: Optional[Callable[..., Any]], checkpoint: Union[_Path, Checkpoint, None]
    ) -> list[str]:
        words = []
        if config is not None:  # null: train-run would lay the config over the file's
            words += set_words({"train_loop_config": None}) + set_words({"train_loop_config": config})
        if loop is not None and self._loop is None:
            raise ValueError("run: a loop can only take the place of another one, and this WarmTrainer was made without")
        if self._loop is not None:  # in all runs: what a run does not name stays in the workers
            words += set_words({"env.TRAINRUN_LOOP": self._word_of(loop) if loop else self._loop})
        if checkpoint is not None:
            path = checkpoint.path if isinstance(checkpoint, Checkpoint) else os.fspath(checkpoint)
            words += set_words({"resume_from_checkpoint": escaped(path)})
        return words

    def _word_of(self, loop: Callable[..., Any]) -> str:
        return escaped(loop_word(loop, {**self._arguments, **(self._arguments.get("overrides") or {})}))

    def _read_spec(self) -> None:
        """Ask train-run what the spec says of the runs' place."""
        spec = self._trainer._spec()
        self._has_workers = value_of(spec, "num_workers", "scaling_config").text != "0"
        storage, name = value_of(spec, "storage_path", "run_config"), value_of(spec, "name")
        if self._given_logdir is not None:
            self._logdir = os.path.abspath(_local(self._given_logdir, "logdir"))
        elif name.given:
            self._logdir = os.path.join(unescaped(_local(storage.text, "run_config.storage_path")), name.text)
        else:
            self._logdir = _new_folder(unescaped(_local(storage.text, "run_config.storage_path")))


def _local(path: str, what: str) -> str:
    if re.match(r"[a-z][a-z0-9+.-]*://", path):
        raise Failure(
            "invalid_argument",
            f"{what} is '{path}': the runs of a WarmTrainer are numbered in a folder, and cannot be in an object store (give a logdir)",
        )
    return path


def _new_folder(parent: str) -> str:
    """Make a folder that is called after the time, and return its path."""
    stem = path = os.path.join(parent, time.strftime("warm_%Y-%m-%d_%H-%M-%S"))
    number = 1
    while True:
        try:
            os.makedirs(path)
            return path
        except FileExistsError:  # another program has begun in the same second
            number += 1
            path = f"{stem}_{number}"


def _number_after(logdir: str, number: int) -> int:
    """Return the next run's number: the least that is larger than those of all runs."""
    folder = Path(logdir)
    names = [entry.name for entry in folder.iterdir()] if folder.is_dir() else []
    taken = [int(found[1]) for name in names if (found := re.fullmatch(r"(?:_solo-)?run_(\d{3,9})", name))]
    return max([number, *taken]) + 1
