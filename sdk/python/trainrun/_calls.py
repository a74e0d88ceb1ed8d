"""The answers to a driver's call of its workers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Optional


class CallFailed(RuntimeError):
    """Not every rank has answered a call with a result."""

    def __init__(self, text: str, results: dict[int, Any], errors: dict[int, str], kinds: dict[int, str]) -> None:
        super().__init__(text)
        self.results, self.errors = results, errors  #: of the ranks that have one, and why others do not; by rank
        self.kinds = kinds  #: of each error: thrown (by the function), refused (it was not called), lost (the worker ended), timeout


@dataclass
class CallAnswers:
    """The answers to a call."""

    results: dict[int, Any] = field(default_factory=dict)
    errors: dict[int, str] = field(default_factory=dict)
    kinds: dict[int, str] = field(default_factory=dict)
    error: str = ""  # why nobody was called
    first_thrown: Optional[int] = None  # of the ranks whose function raised

    def of(self, name: str, ends_worker: bool) -> dict[int, Any]:
        """Return the results by rank; raise CallFailed if a rank has none."""
        if not self.errors and not self.error:
            return self.results
        text = self.error
        if self.errors:
            shown = self.first_thrown if ends_worker and self.first_thrown in self.errors else min(self.errors)
            shown = min(rank for rank, why in self.errors.items() if why == self.errors[shown])  # always the same one
            more = f" (and {len(self.errors) - 1} more ranks)" if len(self.errors) > 1 else ""
            text += f"rank {shown}: {self.errors[shown]}{more}"
        raise CallFailed(f"call of {name}: {text}", self.results, self.errors, self.kinds)
