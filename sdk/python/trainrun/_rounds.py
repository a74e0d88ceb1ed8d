"""Makes rounds of the lines of metrics.jsonl: the n-th report of every rank of an attempt."""

from __future__ import annotations

import json
import re
from collections import deque
from dataclasses import dataclass, field
from typing import Any, Optional

_ORDINALS_MAX = 256  # of checkpoints, the newest, that a state has
_FRONT = re.compile(rb'\{"rank":(\d+),"attempt":(\d+),"report_seq":(\d+),')


@dataclass(frozen=True)
class Round:
    """The n-th report of every rank of an attempt."""

    attempt: int
    number: int  #: counts from 1 in the attempt
    ordinal: int  #: counts from 1 in the run: a round that is done again after a failure has its old ordinal
    redone: bool  #: an earlier attempt has given this ordinal already
    has_checkpoint: bool  #: rank 0 reported one; it may not be committed yet
    reports: list[dict[str, Any]] = field(default_factory=list)  #: the metrics, by rank


@dataclass(frozen=True)
class Places:
    """A round whose reports are yet to be read: where their lines begin, by rank."""

    attempt: int
    number: int
    ordinal: int
    redone: bool
    offsets: list[int]


def read_front(line: bytes) -> Optional[tuple[int, int, int]]:
    """Return rank, attempt and number of a report, or None if the line is none."""
    front = _FRONT.match(line)
    return (int(front[1]), int(front[2]), int(front[3])) if front else None


class ReportRounds:
    """Finds out which lines belong together. Of a report that waits for other ranks' it keeps only the place, since a rank may be
    millions of reports ahead."""

    def __init__(self) -> None:
        self.attempt = -1
        self.counts: list[int] = []
        self._base = self._given = self._highest = 0
        self._waiting: list[deque[int]] = []
        self._ordinals: dict[str, int] = {}  # of checkpoints

    def attempt_began(self, attempt: int, world_size: int, resumes_from: Optional[str]) -> None:
        if attempt == self.attempt:  # told again by a launcher that found it running
            return
        self.attempt, self._base, self._given = attempt, self._ordinals.get(resumes_from or "", 0), 0
        self.counts = [0] * world_size
        self._waiting = [deque() for _ in range(world_size)]

    def committed(self, checkpoint: str, attempt: int, number: int) -> None:
        if attempt == self.attempt:
            self._ordinals[checkpoint] = self._base + number

    def add(self, rank: int, attempt: int, number: int, offset: int) -> None:
        """Take in a report. Those of other attempts than the newest, and repeated ones, are dropped."""
        if attempt != self.attempt or rank >= len(self.counts) or number != self.counts[rank] + 1:
            return
        self.counts[rank] += 1
        self._waiting[rank].append(offset)

    def next(self) -> Optional[Places]:
        if not self._waiting or not all(self._waiting):
            return None
        self._given += 1
        ordinal = self._base + self._given
        redone, self._highest = ordinal <= self._highest, max(self._highest, ordinal)
        return Places(self.attempt, self._given, ordinal, redone, [lines.popleft() for lines in self._waiting])

    def missing(self) -> list[int]:
        """Return the ranks that the oldest incomplete round waits for, if another rank has reported it."""
        missing = [rank for rank, lines in enumerate(self._waiting) if not lines]
        return missing if len(missing) < len(self._waiting) else []

    def first_waiting(self) -> Optional[int]:
        """Return where the first report that waits for others begins; None: none waits."""
        return min((lines[0] for lines in self._waiting if lines), default=None)

    def state(self) -> dict[str, Any]:
        """Return what restore() takes, without the reports that wait."""
        ordinals = dict(list(self._ordinals.items())[-_ORDINALS_MAX:])
        return {
            "attempt": self.attempt,
            "world_size": len(self.counts),
            "base": self._base,
            "given": self._given,
            "highest": self._highest,
            "ordinals": ordinals,
        }

    def restore(self, state: dict[str, Any]) -> None:
        self.attempt_began(state["attempt"], state["world_size"], None)
        self._base, self._given, self._highest = state["base"], state["given"], state["highest"]
        self.counts = [self._given] * state["world_size"]  # what waited is added once more
        self._ordinals = dict(state["ordinals"])


class ReportLog:
    """metrics.jsonl, as far as train-run says that it is on disk."""

    def __init__(self, rounds: ReportRounds) -> None:
        self.rounds = rounds
        self.folder = ""
        self.logged = self.read_to = 0
        self.newest: Optional[Places] = None  #: of the round that next() has returned
        self._file: Optional[Any] = None

    def next(self) -> Optional[Round]:
        """Return the next complete round, or None until more is logged."""
        places = self.rounds.next()
        if places is None and self.read_to < self.logged:
            self._take_lines()
            places = self.rounds.next()
        self.newest = places or self.newest
        return self.read(places) if places else None

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _open(self) -> Any:
        if self._file is None:
            self._file = open(f"{self.folder}/metrics.jsonl", "rb")
        return self._file

    def _take_lines(self) -> None:
        """Take in what is logged, up to the lines of an attempt that train-run has not told of yet."""
        file = self._open()
        file.seek(self.read_to)
        while self.read_to < self.logged:
            line = file.readline()
            if not line.endswith(b"\n"):
                raise OSError(f"{self.folder}/metrics.jsonl: the line at byte {self.read_to} has no end")
            front = read_front(line)
            if front is not None:
                rank, attempt, number = front
                if attempt > self.rounds.attempt:
                    return
                self.rounds.add(rank, attempt, number, self.read_to)
            self.read_to += len(line)

    def read(self, places: Places) -> Round:
        """Return the round whose reports are there."""
        file, reports, has_checkpoint = self._open(), [], False
        for rank, offset in enumerate(places.offsets):
            file.seek(offset)
            report = json.loads(file.readline())
            reports.append(report["metrics"])
            has_checkpoint = bool(report["checkpoint"]) if rank == 0 else has_checkpoint
        return Round(places.attempt, places.number, places.ordinal, places.redone, has_checkpoint, reports)
