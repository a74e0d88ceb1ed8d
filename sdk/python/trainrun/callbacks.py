"""python -m trainrun.callbacks MODULE:CLASS...: tells callbacks what happens in a run (docs/driver.md).

In job.yaml:  run_config: {callbacks: [{command: [python3, -m, trainrun.callbacks, my:Notify]}]}

Each CLASS is a trainrun.Callback, called without arguments. train-run starts this program, which reads the run's events from the
file $TRAINRUN_EVENTS, and keeps how far it has come in $TRAINRUN_CALLBACK_STATE: if it is started again, it goes on from there. What
was not noted there yet is told once more. It ends when there are no more events and its standard input is closed."""

from __future__ import annotations

import dataclasses
import importlib
import json
import os
import select
import sys
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, Optional

from ._errors import Failure
from ._failures import error_of
from ._rounds import Places, Round
from ._trainer import Callback, Trainer

_LOOK_EVERY = 0.1
_PIECE_BYTES = 1 << 20
_LINE_BYTES_MAX = 80 << 20  # of one event
_FORMAT = 1


class EventFile:
    """The events of a run, in place of the train-run of a driver."""

    def __init__(self, path: str, byte: int) -> None:
        self._path, self._pending, self._read_to = path, b"", byte
        self._file: Optional[Any] = None
        self.byte = byte  #: where the next event begins
        self.over = False  #: there are no more

    def next_event(self, limit: float) -> Optional[dict[str, Any]]:
        """Return the next event; None if none comes in time, or if there are no more (over)."""
        until = time.monotonic() + limit
        while True:
            line = self._line()
            if line is not None:
                return self._parsed(line)
            left = until - time.monotonic()
            if self.over or left <= 0:
                return None
            closed = self._input_closed(min(left, _LOOK_EVERY))
            if closed and not self._read():
                self.over = True

    def _line(self) -> Optional[bytes]:
        while (end := self._pending.find(b"\n")) < 0:
            if len(self._pending) > _LINE_BYTES_MAX:
                raise Failure("corrupt", f"{self._path}: the line at byte {self.byte} is too long")
            if not self._read():
                return None
        line, self._pending = self._pending[:end], self._pending[end + 1 :]
        self.byte += end + 1
        return line

    def _read(self) -> bool:
        if self._file is None:
            self._file = open(self._path, "rb")
        self._file.seek(self._read_to)
        piece = self._file.read(_PIECE_BYTES)
        self._pending += piece
        self._read_to += len(piece)
        return bool(piece)

    @staticmethod
    def _parsed(line: bytes) -> dict[str, Any]:
        try:
            event = json.loads(line)
        except ValueError:  # of another version, or a damaged disk
            return {}
        return event if isinstance(event, dict) else {}

    @staticmethod
    def _input_closed(limit: float) -> bool:
        """Wait, and return whether train-run has closed our standard input: it writes nothing there."""
        poll = select.poll()
        poll.register(0, select.POLLIN)
        if not poll.poll(limit * 1000):
            return False
        try:
            return not os.read(0, 4096)
        except OSError:
            return True


class Follower(Trainer):
    """Follows a run that somebody else has started, and tells callbacks."""

    def __init__(self, events: str, state: str, callbacks: list[Callback]) -> None:
        super().__init__(callbacks=callbacks)
        self._begun = True
        self._state = Path(state)
        self._places: deque[Places] = deque()  # of the rounds in self._uncommitted
        noted = self._noted(events)
        self._source = EventFile(events, noted.get("byte", 0))
        self._process: Any = self._source
        if noted:
            self._restore(noted)

    def follow(self) -> None:
        """Tell all that happens, until there is no more."""
        while not self._source.over:
            round = self._log.next()
            if round is not None:
                self._told(round)
            elif (event := self._source.next_event(1.0)) is not None:
                self._handle(event)
            else:
                self._warn_if_slow()
                continue
            self._note()

    def _told(self, round: Round) -> None:
        super()._told(round)
        if round.has_checkpoint and self._log.newest is not None:
            self._places.append(self._log.newest)

    def _handle(self, event: dict[str, Any]) -> None:
        name = event.get("event")
        if name == "run" and self._log.folder:  # a later launcher: go on where we are
            self._log.folder = event["folder"]
            self._log.logged = max(self._log.logged, event["logged"])
            if not self._told_start:
                self._told_start = True
                self._tell("start_training", event["folder"])
            return
        super()._handle(event)
        while len(self._places) > len(self._uncommitted):
            self._places.popleft()
        if name == "end":
            self._tell_end(event)

    def _tell_end(self, end: dict[str, Any]) -> None:
        """Tell how the run has ended. If somebody resumes it, it begins anew for callbacks."""
        result = self._result_on_disk()
        result.outcome, result.cause = end.get("outcome") or "refused", end.get("cause") or ""
        result.exit_code = code = end.get("code") or 0
        self._finish(error_of(result, result.cause or f"train-run ended with {code}", self._failure) if code else None)
        self._log.close()
        self._told_finish = self._told_start = False
        self._failure = None

    # ---- how far it has come

    def _note(self) -> None:
        waiting = self._log.rounds.first_waiting()
        noted = {
            "format": _FORMAT,
            "byte": self._source.byte,
            "folder": self._log.folder,
            "read_to": self._log.read_to if waiting is None else min(waiting, self._log.read_to),
            "logged": self._log.logged,
            "rounds": self._log.rounds.state(),
            "uncommitted": [dataclasses.asdict(places) for places in self._places],
            "told_start": self._told_start,
        }
        temporary = self._state.with_suffix(".tmp")
        try:
            temporary.write_text(json.dumps(noted))
            os.replace(temporary, self._state)
        except OSError as error:
            print(f"trainrun: warning: {self._state} cannot be written: {error.strerror}", file=sys.stderr)

    def _noted(self, events: str) -> dict[str, Any]:
        """Return what was noted; nothing if there is none that fits the events."""
        try:
            noted = json.loads(self._state.read_bytes())
            size = os.stat(events).st_size
        except (OSError, ValueError):
            return {}
        fits = isinstance(noted, dict) and noted.get("format") == _FORMAT and noted.get("byte", size + 1) <= size
        return noted if fits else {}

    def _restore(self, noted: dict[str, Any]) -> None:
        self._told_start = noted["told_start"]
        self._log.folder, self._log.read_to, self._log.logged = noted["folder"], noted["read_to"], noted["logged"]
        self._log.rounds.restore(noted["rounds"])
        for places in noted["uncommitted"]:
            self._places.append(Places(**places))
            self._uncommitted.append(self._log.read(self._places[-1]))


def load(name: str) -> Callback:
    """Return a new object of MODULE:CLASS."""
    module, _, path = name.partition(":")
    if not module or not path:
        raise ValueError(f"'{name}' is not MODULE:CLASS")
    found: Any = importlib.import_module(module)
    for part in path.split("."):
        found = getattr(found, part)
    make: Callable[[], Callback] = found
    return make()


def main(words: list[str]) -> None:
    events, state = os.environ.get("TRAINRUN_EVENTS"), os.environ.get("TRAINRUN_CALLBACK_STATE")
    if not words:
        sys.exit("usage: python -m trainrun.callbacks MODULE:CLASS...")
    if not events or not state:
        sys.exit("trainrun.callbacks is started by train-run: name it in run_config.callbacks of job.yaml (docs/driver.md)")
    if "" not in sys.path and os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    Follower(events, state, [load(word) for word in words]).follow()


if __name__ == "__main__":
    main(sys.argv[1:])
