"""The workers that stay between the runs of a WarmTrainer: the train-run of the run that has ended still holds them."""

from __future__ import annotations

import os
from typing import Optional

from ._driver import DriverProcess
from ._errors import Failure

PATIENCE = 5.0  # seconds that they have to end by themselves
_PATIENCE_MAX = 600.0


class KeptWorkers:
    """The train-run that holds them, and where its run is. Belongs to one thread."""

    def __init__(self) -> None:
        self._holder: Optional[DriverProcess] = None
        self._run = ""
        self._leaving: Optional[DriverProcess] = None  # its workers were taken, or could not be used
        self._active = True
        self._process_id = os.getpid()

    def check_active(self) -> None:
        if not self._active:
            raise Failure("unavailable", "this WarmTrainer is not active: it was shut down")

    def words(self) -> list[str]:
        """Return what the next run's train-run is told, so that it takes the workers, and keeps them."""
        return ["--keep-workers", *(["--workers-of", self._run] if self._holder is not None else [])]

    def let_go(self) -> None:
        """The next run's workers have started: those that it has not taken may end. Waits for nothing."""
        if self._holder is None:
            return
        self._wait_for_leaving()
        self._holder.leave()
        self._holder, self._leaving = None, self._holder

    def hold(self, process: DriverProcess, run: str) -> None:
        """Take over the train-run of a run that has ended, whose workers stay."""
        if not self._active:
            process.close()
            return
        self.let_go()
        self._wait_for_leaving()
        self._holder, self._run = process, run

    def end(self, patience: float = PATIENCE) -> None:
        """End the workers, and keep none from now on. They have so many seconds to end by themselves; then they are killed."""
        if os.getpid() != self._process_id:  # a child of a fork, when it exits
            return
        self._active = False
        self._wait_for_leaving()
        holder, self._holder = self._holder, None
        if holder is not None:
            holder.send({"command": "release", "patience_ms": int(max(0.0, min(patience, _PATIENCE_MAX)) * 1000)})
            holder.wait()
            holder.close()

    def _wait_for_leaving(self) -> None:
        leaving, self._leaving = self._leaving, None
        if leaving is not None:
            leaving.wait()
