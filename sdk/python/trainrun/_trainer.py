"""Runs a job from a program: starts train-run as a child, follows the run, and may stop it (docs/driver.md)."""

from __future__ import annotations

import json
import os
import sys
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Callable, Optional, Union

from . import _library, _places
from ._calls import CallAnswers
from ._checkpoint import Checkpoint
from ._driver import DriverProcess
from ._errors import Failure
from ._failures import AttemptFailure, ControllerError, TrainingFailed, attempt_failure, error_of
from ._loop import loop_command
from ._resolved import resolved_spec
from ._result import Result, open_checkpoint
from ._rounds import ReportLog, ReportRounds, Round

_CALLBACK_FAILURES_MAX = 3  # in a row
_SLOW_ROUND_AFTER = 60.0
_ANSWER_GRACE = 30.0  # train-run answers when the call's time is over
_NO_RANK = -1
_ATTEMPT_END_MAX = 600.0  # once a worker of it has ended
_CALL_BYTES_MAX = 512 << 10  # of a call's argument
_SPEC_KEYS = (
    "command",
    "scaling_config",
    "run_config",
    "datasets",
    "dataset_config",
    "metadata",
    "env",
    "working_dir",
    "ship",
    "setup",
    "per_node_setup",
    "cluster",
    "backend",
    "backend_config",
    "resume_from_checkpoint",
)
# Arguments of Ray Train's trainers that have another name here, or none.
_OF_RAY_TRAIN = {
    "preprocessor": "Ray Train has removed it; write datasets={NAME: {'preprocessors': ...}}",
    "train_loop_per_worker": "pass the loop as the first argument",
    "torch_config": "write backend_config={'collectives': ..., 'timeout': ...}",
    "preprocess_datasets": "removed in Ray, too: use datasets={NAME: {'preprocessors': ...}}",
    "sync_config": "removed in Ray, too: use run_config={'storage_path': ...}; checkpoints go there by themselves",
    "verbose": "removed in Ray, too: use run_config={'log_level': ...}, and show_output",
    "progress_reporter": "removed in Ray, too: use callbacks",
    "log_to_file": "removed in Ray, too: use train-run logs; the run's folder always has the workers' output",
}


class Callback:
    """What happens in the run, told in the driver, on the thread that calls fit() or takes rounds, one call at a time, in order.
    An exception of a callback is printed; after three in a row, it is told nothing more."""

    def start_training(self, logdir: str) -> None:
        """The run's folder exists. Called once."""

    def handle_result(self, round: Round) -> None:
        """All ranks have made the round's report. Called once for each round."""

    def after_report(self, round: Round, checkpoint: Optional[Checkpoint]) -> None:
        """The checkpoint of the round is committed (None: it was given up, or the round had none). Called once for each round,
        after handle_result()."""

    def after_exception(self, failure: AttemptFailure) -> None:
        """An attempt has failed; the next one has not begun."""

    def finish_training(self, error: Optional[BaseException]) -> None:
        """The run has ended, or the driver's own code raised. Called once, last."""


def set_words(values: dict[str, Any]) -> list[str]:
    """Return the words that lay values over the spec: keys are paths."""
    words = []
    for key, value in values.items():
        words += ["--set", f"{key}={_library.to_json(value).decode()}"]
    return words


class Trainer:
    """A run of a job.

    Trainer("job.yaml", overrides={"train_loop_config.lr": 1e-3})     the job of a file
    Trainer(command=["./train"], scaling_config={"num_workers": 4})   a spec: the keys of the YAML
    Trainer(loop, train_loop_config={"lr": 1e-3}, ...)                a function of Python is the training loop

    fit() runs it to its end. iterate() gives its rounds instead. A Trainer runs once."""

    def __init__(
        self,
        job: Union[str, os.PathLike[str], Callable[..., Any], None] = None,
        *,
        overrides: Optional[dict[str, Any]] = None,
        train_loop_config: Optional[dict[str, Any]] = None,
        callbacks: Optional[list[Callback]] = None,
        program: Optional[str] = None,
        arguments: Optional[list[str]] = None,
        show_output: bool = True,
        leave_run_on_exit: bool = False,
        **spec: Any,
    ) -> None:
        """overrides lie over the file: keys are paths, as of `--set`. program: the train-run to start; by default
        $TRAINRUN_PROGRAM, that of this installation, or that on PATH. arguments: more words for it. leave_run_on_exit: when this
        process dies, the run continues; else it stops in good order."""
        unknown = [key for key in spec if key not in _SPEC_KEYS]
        if unknown and unknown[0] in _OF_RAY_TRAIN:
            raise TypeError(f"Trainer() does not take '{unknown[0]}': {_OF_RAY_TRAIN[unknown[0]]}")
        if unknown:
            raise TypeError(f"Trainer() got an unexpected keyword argument '{unknown[0]}' (keys of a spec: {', '.join(_SPEC_KEYS)})")
        values = dict(spec)
        if train_loop_config is not None:
            values["train_loop_config"] = train_loop_config
        words = ["run"]
        if callable(job):
            values["command"] = loop_command(job, {**spec, **(overrides or {})})
            library = os.environ.get("TRAINRUN_LIBRARY")  # workers do not inherit what begins with TRAINRUN_
            if library:
                values["env"] = {"TRAINRUN_LIBRARY": library, **values.get("env", {})}
        elif job is not None:
            words.append(os.fspath(job))
        words += set_words(values) + set_words(overrides or {})
        if leave_run_on_exit:
            words += ["--on-driver-exit", "leave"]
        self._words = words + (arguments or [])
        self._program, self._show_output = program, show_output
        self._callbacks = {id(callback): callback for callback in callbacks or []}
        self._failures: dict[int, int] = {}
        self._process: Optional[DriverProcess] = None
        self._log = ReportLog(ReportRounds())
        self._uncommitted: deque[Round] = deque()
        self._failure: Optional[AttemptFailure] = None
        self._end: Optional[dict[str, Any]] = None
        self._error_of_run: Optional[TrainingFailed] = None
        self._begun = self._over = self._told_start = self._told_finish = self._stop_asked = False
        self._followed = self._has_workers = self._workers_stay = False
        self._code: Optional[int] = None  # of train-run
        self._ended_by: Optional[int] = None  # how the attempt that was called last has ended: the root cause's rank, or _NO_RANK
        self._deferred: deque[dict[str, Any]] = deque()  # came during a call
        self._calls = 0
        self._pace = 0
        self._given: Optional[Round] = None  # not acknowledged yet
        self._moved, self._said_slow = time.monotonic(), False

    def add_callback(self, callback: Callback) -> None:
        self._callbacks[id(callback)] = callback

    def fit(self) -> Result:
        """Run the job to its end, and return its result. Raises a TrainingFailed if it did not succeed."""
        for _ in self._rounds():
            pass
        return self._ended()

    def iterate(self, pace: int = 0) -> Iterator[Round]:
        """Begin the job, and give its rounds as they are complete. After the last one, call result(). If the run succeeds, and its
        ranks have made unequal numbers of reports, raises Failure ("ranks_disagree"), unless the run was stopped.

        `pace`: how many rounds the workers may be ahead of the driver, 1 to 64: a worker's report() returns once fewer than so many
        of its rounds are unacknowledged. The driver acknowledges a round when it asks for the next one. 1 is lock step: no rank
        begins a step before the driver is done with the one before, so that stop() stops all ranks at exactly that step. 0: workers
        never wait for the driver. Once the driver is gone, or a rank has ended, nobody waits any more."""
        yield from self._rounds(pace)
        self._check_equal()

    def start(self, pace: int = 0) -> None:
        """Begin the job, and return; fit() or iterate() then follow it. Workers can be called from now on, also from callbacks, and
        from a loop over rounds. `pace`: see iterate()."""
        self._begin(pace)

    def call(
        self, name: str, argument: Any = None, *, ranks: Optional[list[int]] = None, timeout: float = 30.0, retries: int = 0,
        ends_worker: bool = False,
    ) -> dict[int, Any]:
        """Call a function that the workers serve (trainrun.serve), on these ranks or on all, and return what they answer, by rank.
        Waits for the workers' start, and for the answers, each for at most `timeout` seconds; what happens to the run meanwhile is
        told afterwards. Only the thread that follows the run may call. Raises CallFailed, or Failure if the run has not begun, or
        has ended.

        `retries`: how often to call the workers of the next attempt instead, if some have ended before they answered: because a
        worker or node died, or the group has changed its size. If the attempt failed by an exception of the function itself, which
        left the worker's loop, too, nobody is called again. The function must be such that it does no harm if it has run before.

        `ends_worker`: an exception of the function ends its worker, too. The call then returns once the attempt has ended, so that
        the next one reaches the workers that follow."""
        while True:
            answers = self._call_once(name, argument, ranks, timeout)
            wait = retries > 0 or ends_worker
            if not (wait and self._may_call_again(answers, ends_worker)) or retries <= 0:
                return answers.of(name, ends_worker)
            retries -= 1

    def _call_once(self, name: str, argument: Any, ranks: Optional[list[int]], timeout: float) -> CallAnswers:
        if self._process is None:
            raise Failure("invalid_argument", "call: this Trainer has not begun its job (start() does)")
        self._calls += 1
        command = {"command": "call", "id": self._calls, "name": name, "argument": argument, "within_ms": max(1, int(timeout * 1000))}
        if ranks is not None:
            command["ranks"] = ranks
        try:
            json.dumps(command, default=_library._plain, allow_nan=False)
        except ValueError:
            raise Failure("invalid_argument", f"call of {name}: the argument holds a number that JSON lacks, NaN or an infinity") from None
        if len(_library.to_json(command)) >= _CALL_BYTES_MAX:
            raise Failure("invalid_argument", f"call of {name}: the argument may have {_CALL_BYTES_MAX >> 10} KiB of JSON")
        answers = CallAnswers()
        until, sent = time.monotonic() + timeout, False
        while True:
            if not sent and self._has_workers:
                self._ended_by = None
                self._process.send(command)
                sent, until = True, time.monotonic() + timeout + _ANSWER_GRACE
            if self._has_ended():
                raise Failure("unavailable", f"call of {name}: the run has ended")
            if time.monotonic() >= until:
                raise Failure("timeout", f"call of {name}: " + ("train-run does not answer" if sent else "the run has no workers yet"))
            event = self._next_event()
            if event is None:
                continue
            if event.get("id") != self._calls or event.get("event") not in ("answer", "called"):
                self._defer(event)
            elif event["event"] == "called":
                answers.error, answers.first_thrown = event.get("error") or "", event.get("first_thrown")
                return answers
            elif "error" in event:
                answers.errors[event["rank"]] = event["error"]
                answers.kinds[event["rank"]] = event.get("kind", "")
            else:
                answers.results[event["rank"]] = event.get("result")

    @property
    def folder(self) -> str:
        """The run's folder on this machine; empty until the run has begun."""
        for event in self._deferred:
            if event.get("event") == "run":
                return str(event["folder"])
        return self._log.folder

    def stop(self) -> None:
        """Ask the run to stop in good order, as a stop condition does: the run succeeds. Any thread may call it."""
        self._stop_asked = True
        if self._process is not None and not self._workers_stay:
            self._process.send({"command": "stop"})

    def result(self, force: bool = False) -> Optional[Result]:
        """Return the result once the rounds are over; raises as fit() does. If rounds are left: with `force`, stop the run and wait
        for its end; without, return None."""
        if self._process is None:
            raise Failure("invalid_argument", "this Trainer has not run its job yet")
        if self._over and self._error_of_run:
            raise self._error_of_run
        if self._over:
            raise Failure("invalid_argument", "the result of this Trainer has been returned already")
        if not self._has_ended():
            if not force:
                return None
            self.stop()
        while self._next() is not None:
            pass
        return self._ended()

    def __enter__(self) -> Trainer:
        return self

    def __exit__(self, kind: Any, error: Optional[BaseException], trace: Any) -> None:
        """Stop a run that has not ended, and wait for its end."""
        if self._process is None or self._over:
            return
        if self._has_ended():
            self._leave()
        else:
            self.stop()
            self._process.close()
        self._finish(error)

    # ---- the run

    def _begin(self, pace: int) -> None:
        if os.environ.get("TRAINRUN_SOCKET") or os.environ.get("TRAINRUN_SOLO_DIR"):
            raise Failure(
                "invalid_argument",
                "a Trainer runs in a worker of another run: start it in the driver only (if __name__ == '__main__': ...)",
            )
        if self._begun:
            raise Failure("invalid_argument", "this Trainer has run its job already: make another one")
        self._begun, self._pace = True, pace
        words = self._words_to_run()
        words[1:1] = ["--pace", str(pace)] if pace else []
        program = self._find_program()
        try:
            self._process = DriverProcess(program, words, self._show_output)
        except OSError as error:
            raise ControllerError(f"cannot start '{program}': {error.strerror or error}", Result()) from None

    def _find_program(self) -> str:
        named = self._program or os.environ.get("TRAINRUN_PROGRAM")
        try:
            return named or _places.program("train-run")
        except OSError as error:
            raise ControllerError(f"cannot start 'train-run': {error}", Result()) from None

    def _spec(self) -> str:
        """Return the complete spec, as train-run prints it."""
        return resolved_spec(self._find_program(), self._words)

    def _words_to_run(self) -> list[str]:
        """Return a copy of what train-run is told."""
        return list(self._words)

    def _has_ended(self) -> bool:
        """Return whether train-run has no more to say of the run."""
        return self._workers_stay or (self._process is not None and self._process.over)

    def _earlier_workers_may_go(self) -> None:
        """Called when workers of the run have started."""

    def _workers_left(self, process: DriverProcess) -> None:
        """Called when a run has ended whose workers stay: `process` holds them."""
        process.close()

    def _rounds(self, pace: int = 0) -> Iterator[Round]:
        if self._process is None or self._followed:
            self._begin(pace)
        elif pace and pace != self._pace:
            raise Failure("invalid_argument", f"iterate: this Trainer was started with pace {self._pace}, not {pace}: give it to start()")
        self._followed = True
        while (round := self._next()) is not None:
            yield round

    def _next(self) -> Optional[Round]:
        """Follow the run until the next round is complete."""
        assert self._process is not None
        self._acknowledge()
        while True:
            round = self._log.next()
            if round is not None:
                self._told(round)
                return round
            if self._deferred:
                self._handle(self._deferred.popleft())
                continue
            if self._has_ended():
                return None
            event = self._next_event()
            if event is None:
                self._warn_if_slow()
            else:
                self._handle(event)

    def _next_event(self) -> Optional[dict[str, Any]]:
        """Return what train-run says next; None if it says nothing for a second."""
        assert self._process is not None
        event = self._process.next_event(1.0)
        if event is not None:
            self._read(event)
        return event

    def _read(self, event: dict[str, Any]) -> None:
        """Take from an event what is to be known at once, even if the event itself is handled later."""
        name = event.get("event")
        if name in ("attempt", "exception", "restart", "end"):
            self._has_workers = name == "attempt"
        if name == "attempt":
            self._ended_by = None  # that was told of an earlier one
        if name in ("attempt", "workers_not_used"):
            self._earlier_workers_may_go()
        if name == "exception":
            self._ended_by = next((one["rank"] for one in event["ranks"]), _NO_RANK)
        elif name == "restart" and self._ended_by is None:
            self._ended_by = _NO_RANK
        elif name == "end":
            self._workers_stay = event.get("workers_stay") is True

    def _may_call_again(self, answers: CallAnswers, ends_worker: bool) -> bool:
        """Return whether a call was lost with its attempt, or came when there was none, for another reason than an exception of the
        function. Waits until it is known how the attempt has ended."""
        assert self._process is not None
        if not answers.errors and not answers.error:
            return False
        ending = "lost" in answers.kinds.values() or (ends_worker and answers.first_thrown is not None)
        if not ending and self._ended_by is None:
            return False
        until = time.monotonic() + _ATTEMPT_END_MAX
        while self._ended_by is None and not self._has_ended() and time.monotonic() < until:
            event = self._next_event()
            if event is not None:
                self._defer(event)
        if self._ended_by is None:
            return self._has_ended()
        return answers.kinds.get(self._ended_by) != "thrown"

    def _defer(self, event: dict[str, Any]) -> None:
        """Keep an event for later. The newest `logged` says what those before it have said."""
        if event.get("event") == "logged" and self._deferred and self._deferred[-1].get("event") == "logged":
            self._deferred.pop()
        self._deferred.append(event)

    def catch_up(self) -> None:
        """Tell the callbacks what has happened so far, without waiting for more: for a driver that calls its workers and takes no
        rounds. On the thread that follows the run."""
        while True:
            round = self._log.next()
            if round is not None:
                self._told(round)
                self._acknowledge()
            elif self._deferred:
                self._handle(self._deferred.popleft())
            else:
                return

    def _handle(self, event: dict[str, Any]) -> None:
        name = event.get("event")
        if name == "run":
            self._log.folder, self._log.read_to = event["folder"], event["logged"]
            if not self._told_start:
                self._told_start = True
                self._tell("start_training", event["folder"])
        elif name == "attempt":
            if event["attempt"] != self._log.rounds.attempt:  # else commits of these workers go on
                self._give_up_checkpoints(0)
            self._failure = None
            if event.get("found_running"):  # an earlier launcher has logged reports of this attempt
                self._log.read_to = 0
            self._log.rounds.attempt_began(event["attempt"], event["world_size"], event.get("resumes_from"))
            self._moved = time.monotonic()
        elif name == "logged":
            self._log.logged = max(self._log.logged, event["bytes"])
        elif name == "checkpoint":
            self._committed(event)
        elif name == "exception":
            self._give_up_checkpoints(0)
            self._failure = attempt_failure(event)
            self._tell("after_exception", self._failure)
        elif name == "end":
            self._give_up_checkpoints(0)
            self._end = event

    def _acknowledge(self) -> None:
        """Tell train-run that this driver is done with the newest round, if workers may wait for that."""
        round, self._given = self._given, None
        if self._pace and round is not None and self._process is not None:
            self._process.send({"command": "acknowledge", "attempt": round.attempt, "round": round.number})

    def _told(self, round: Round) -> None:
        self._given = round
        self._moved, self._said_slow = time.monotonic(), False
        self._tell("handle_result", round)
        if round.has_checkpoint:
            self._uncommitted.append(round)
        else:
            self._tell("after_report", round, None)

    def _committed(self, event: dict[str, Any]) -> None:
        self._log.rounds.committed(event["name"], event["attempt"], event["report_seq"])
        of = [n for n, one in enumerate(self._uncommitted) if (one.attempt, one.number) == (event["attempt"], event["report_seq"])]
        if not of:
            return
        self._give_up_checkpoints(len(self._uncommitted) - of[0])  # those before it
        round = self._uncommitted.popleft()
        if self._callbacks:
            self._tell("after_report", round, open_checkpoint(Path(self._log.folder, "checkpoints", event["name"])))

    def _give_up_checkpoints(self, keep: int) -> None:
        while len(self._uncommitted) > keep:
            self._tell("after_report", self._uncommitted.popleft(), None)

    def _warn_if_slow(self) -> None:
        missing = self._log.rounds.missing()
        if self._said_slow or not missing or time.monotonic() - self._moved < _SLOW_ROUND_AFTER:
            return
        self._said_slow = True
        ranks = ", ".join(map(str, missing))
        print(
            f"trainrun: warning: a round has waited for a report of rank {ranks} for {_SLOW_ROUND_AFTER:.0f} s (every rank must report "
            "equally often)",
            file=sys.stderr,
        )

    def _check_equal(self) -> None:
        counts, end = self._log.rounds.counts, self._end or {}
        if len(set(counts)) < 2 or end.get("outcome") != "succeeded" or end.get("cause") or self._stop_asked:
            return
        parts = ", ".join(f"rank {rank} {count}" for rank, count in enumerate(counts[:8])) + (", …" if len(counts) > 8 else "")
        raise Failure(
            "ranks_disagree", f"the ranks have made unequal numbers of reports: {parts}; rounds need each rank to report equally often"
        )

    def _tell(self, what: str, *arguments: Any) -> None:
        for key, callback in self._callbacks.items():
            if self._failures.get(key, 0) >= _CALLBACK_FAILURES_MAX:
                continue
            try:
                getattr(callback, what)(*arguments)
                self._failures[key] = 0
            except Exception as error:
                self._failures[key] = self._failures.get(key, 0) + 1
                off = self._failures[key] >= _CALLBACK_FAILURES_MAX
                print(
                    f"trainrun: warning: {what} of {type(callback).__qualname__} raised {type(error).__qualname__}: {error}"
                    + ("; after three exceptions in a row, it is told nothing more" if off else ""),
                    file=sys.stderr,
                )

    def _finish(self, error: Optional[BaseException]) -> None:
        if not self._told_finish and self._begun:
            self._told_finish = True
            self._tell("finish_training", error)

    def _ended(self) -> Result:
        """Return the result, or raise what the run's end calls for."""
        assert self._process is not None
        code, end = self._leave(), self._end or {}
        self._log.close()
        self._over = True
        result = self._result_on_disk() if "outcome" in end else Result()
        result.outcome, result.cause = end.get("outcome") or "refused", end.get("cause") or ""
        result.exit_code = code
        if code == 0:
            self._finish(None)
            return result
        text = result.cause or self._process.errors().rstrip("\n") or f"train-run ended with {code}"
        self._error_of_run = error_of(result, text, self._failure)
        self._finish(self._error_of_run)
        raise self._error_of_run

    def _leave(self) -> int:
        """Be done with train-run, which has no more to say. Return its exit code."""
        assert self._process is not None
        if self._code is None and self._workers_stay:
            self._code = int((self._end or {}).get("code") or 0)  # it runs on, and holds the workers
            self._workers_left(self._process)
        elif self._code is None:
            self._code = self._process.wait()
            self._process.leave()
        return self._code

    def _result_on_disk(self) -> Result:
        """Return what exit.json says. A run that another train-run has taken over has none yet."""
        try:
            return Result.from_path(self._log.folder) if self._log.folder else Result()
        except (Failure, OSError):
            return Result(path=self._log.folder)
