"""What the functions of this package raise."""

from __future__ import annotations


class Failure(RuntimeError):
    """The failure of a call. The text says what failed, where, why, and what to do; `kind` is a stable name
    ("invalid_argument", "unavailable", "timeout", "corrupt", …)."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(kind, text)
        self.kind = kind
        self.text = text

    def __str__(self) -> str:
        return self.text


class Stopped(SystemExit):
    """The run is being stopped in good order (Ctrl-C, a stop condition, a preemption), and its checkpoint is kept: the program
    only needs to end. As a SystemExit with code 0, it passes `except Exception`, and ends the program without a trace."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.code = 0
        self.reason = reason
