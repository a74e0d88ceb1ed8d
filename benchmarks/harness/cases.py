"""Defines what to measure, on which subjects and how often, and takes the samples alternately.

A Case compares Subjects (ours, the peers, the bare limit) by the same Metrics. A subject's sample() returns one value for
each metric that it has, or raises Failed. We count failures and keep their reasons, and never drop one.
"""

from __future__ import annotations

import statistics
import sys
import time
from dataclasses import dataclass, field
from typing import Callable

from .processes import Failed

OURS = "ours"


@dataclass(frozen=True)
class Goal:
    """What ours should reach: a bound, a ratio to a peer, or a bound on the excess over the bare program."""

    at_most: float | None = None
    at_least: float | None = None
    times_better: tuple[str, float] | None = None  # (peer, factor)
    over_bare: float | None = None                 # at most the subject "bare" plus this


@dataclass(frozen=True)
class Metric:
    """One figure. `unit` says how to write values: s, 1/s, MiB or count (values of times are in seconds)."""

    key: str
    title: str
    unit: str = "s"
    higher_is_better: bool = False
    goal: Goal = Goal()


@dataclass(frozen=True)
class Subject:
    """A subject to measure. `missing` says why it cannot be measured, if so."""

    name: str
    sample: Callable[[], dict[str, float]]
    count: int
    missing: str | None = None


@dataclass(frozen=True)
class Case:
    """A comparison."""

    name: str
    title: str
    metrics: list[Metric]
    subjects: list[Subject]


@dataclass
class Samples:
    """The results of one subject: values by metric, and failures as (kind, reason)."""

    values: dict[str, list[float]] = field(default_factory=dict)
    failures: list[tuple[str, str]] = field(default_factory=list)
    taken: int = 0
    missing: str | None = None

    def median(self, metric: str) -> float | None:
        """Return the median of a metric, if it has any values."""
        values = self.values.get(metric)
        return statistics.median(values) if values else None

    def failed(self, kind: str) -> int:
        """Return how many samples failed in this way."""
        return sum(1 for each, _ in self.failures if each == kind)


@dataclass
class CaseResult:
    """A case and what each of its subjects gave."""

    case: Case
    samples: dict[str, Samples]


def alternate(counts: dict[str, int]) -> list[str]:
    """Return the order of samples. Each subject's are spread evenly, so that a slow minute of the machine affects all.

    {"ours": 4, "peer": 2} gives ours, peer, ours, ours, peer, ours."""
    places = [((index + 0.5) / count, position, name)
              for position, (name, count) in enumerate(counts.items()) for index in range(count)]
    return [name for _, _, name in sorted(places)]


def run_case(case: Case) -> CaseResult:
    """Take all samples of a case, and print each to stderr."""
    samples = {subject.name: Samples(missing=subject.missing) for subject in case.subjects}
    by_name = {subject.name: subject for subject in case.subjects}
    for name, one in samples.items():
        if one.missing is not None:
            say(f"{case.name}: {name}: not measured: {one.missing}")
    order = alternate({subject.name: subject.count for subject in case.subjects if subject.missing is None})
    for name in order:
        one = samples[name]
        one.taken += 1
        began = time.monotonic()
        try:
            values = by_name[name].sample()
        except Failed as failure:
            one.failures.append((failure.kind, str(failure)))
            say(f"{case.name}: {name} #{one.taken}: {failure.kind}: {shorten(str(failure))}")
            continue
        for key, value in values.items():
            one.values.setdefault(key, []).append(value)
        shown = ", ".join(f"{key} {value:.6g}" for key, value in values.items())
        say(f"{case.name}: {name} #{one.taken}: {shown}  ({time.monotonic() - began:.1f} s in all)")
    return CaseResult(case, samples)


def shorten(text: str, limit: int = 300) -> str:
    """Shorten a text to one line: its beginning and its end, which matter most in commands and errors."""
    flat = " ".join(text.split())
    return flat if len(flat) <= limit else f"{flat[: limit // 2]} … {flat[-limit // 2:]}"


def say(text: str) -> None:
    """Print progress."""
    print(text, file=sys.stderr, flush=True)
