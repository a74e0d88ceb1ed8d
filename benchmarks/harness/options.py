"""The selection on run.py's command line: which samples of a measure to take."""

from __future__ import annotations

from dataclasses import dataclass

from .cases import Case, Subject


@dataclass(frozen=True)
class Options:
    """An empty choice selects everything."""

    only: frozenset[str] = frozenset()     # subjects
    cases: frozenset[str] = frozenset()    # cases
    workers: frozenset[int] = frozenset()  # world sizes, if a measure has several
    repeat: int | None = None              # samples per subject

    def choose(self, cases: list[Case]) -> list[Case]:
        """Return the chosen cases with the chosen subjects and counts."""
        chosen = []
        for case in cases:
            if self.cases and case.name not in self.cases:
                continue
            subjects = [Subject(one.name, one.sample, one.count if self.repeat is None else self.repeat, one.missing)
                        for one in case.subjects if not self.only or one.name in self.only]
            if subjects:
                chosen.append(Case(case.name, case.title, case.metrics, subjects))
        return chosen
