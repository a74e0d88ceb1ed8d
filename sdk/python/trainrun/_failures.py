"""Why a run has not succeeded: what its driver is told of it, and what fit() raises."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Optional

from ._result import Result


@dataclass(frozen=True)
class RankFailure:
    """How one rank of an attempt failed."""

    rank: int
    node: str
    kind: str  #: exited, killed, lost, start_failed, hung
    cause: str  #: one line for people, as train-run shows it
    exit_code: Optional[int] = None  #: of exited
    signal: Optional[str] = None  #: of killed: "SIGSEGV"
    type: str = ""  #: of an exception that ended the worker; else empty
    what: str = ""
    stack: str = ""


@dataclass(frozen=True)
class AttemptFailure:
    """An attempt that failed."""

    attempt: int
    cause: str  #: the root cause, in one line
    ranks: dict[int, RankFailure] = field(default_factory=dict)  #: that failed by themselves
    omitted: int = 0  #: failed ranks that are not in `ranks`, because they are many


class TrainingFailed(RuntimeError):
    """The run did not succeed. `result` is what there is of it; its path is empty if there was no run."""

    def __init__(self, text: str, result: Result) -> None:
        super().__init__(text)
        self.result = result
        result.error = self


class WorkerGroupError(TrainingFailed):
    """A worker or node failed, and no restart was left."""

    def __init__(self, text: str, result: Result, failure: AttemptFailure) -> None:
        super().__init__(text, result)
        self.failure = failure

    @property
    def worker_failures(self) -> dict[int, RankFailure]:
        return self.failure.ranks


class HangError(WorkerGroupError):
    """Ranks hung, and no restart was left."""


class PreemptionError(TrainingFailed):
    """The run was stopped from outside and can be resumed: a signal, `train-run stop`, a preemption."""


class SpecError(TrainingFailed):
    """The spec or an option is wrong. The text has every mistake."""


class ClusterError(TrainingFailed):
    """There is no usable cluster, no permission, or another train-run has the run."""


class ControllerError(TrainingFailed):
    """train-run cannot be started, died, or cannot write the run's files."""


def attempt_failure(event: dict[str, Any]) -> AttemptFailure:
    """Return what an event `exception` says."""
    ranks = {}
    for rank in event.get("ranks", []):
        thrown = rank.get("error") or {}
        ranks[rank["rank"]] = RankFailure(
            rank=rank["rank"],
            node=rank.get("node") or "",
            kind=rank.get("kind") or "",
            cause=rank.get("cause") or "",
            exit_code=rank.get("exit_code"),
            signal=rank.get("signal"),
            type=thrown.get("type", ""),
            what=thrown.get("what", ""),
            stack=thrown.get("stack", ""),
        )
    return AttemptFailure(event["attempt"], event.get("cause") or "", ranks, event.get("omitted", 0))


def error_of(result: Result, text: str, failure: Optional[AttemptFailure]) -> TrainingFailed:
    """Return what the end of a run calls for that has not succeeded. `failure`: of its last attempt."""
    if result.outcome in ("interrupted", "preempted"):
        return PreemptionError(f"the run was stopped: {text}", result)
    if result.outcome == "failed":
        failure = failure or AttemptFailure(0, text)
        hung = any(rank.kind == "hung" for rank in failure.ranks.values())
        return (HangError if hung else WorkerGroupError)(text, result, failure)
    if result.exit_code in (2, 78):
        return SpecError(text, result)
    if result.exit_code in (66, 69, 73, 76, 77):
        return ClusterError(text, result)
    return ControllerError(text, result)
