"""End a run on a signal: stop everything it started, and exit with the signal's code."""

from __future__ import annotations

import signal
from types import FrameType
from typing import NoReturn


class StopSignals:
    """Turns SIGINT and SIGTERM into KeyboardInterrupt and remembers which one came.

    Of all exceptions Ray's blocking calls let only KeyboardInterrupt and SystemExit through.
    """

    def __init__(self) -> None:
        self.received = signal.SIGINT
        self.listen()

    def listen(self) -> None:
        """Repeat after ``ray.init``, which installs its own handlers."""
        for signum in (signal.SIGINT, signal.SIGTERM):
            signal.signal(signum, self._stop)

    def ignore(self) -> None:
        """While tidying up: a second signal must not leave processes behind."""
        for signum in (signal.SIGINT, signal.SIGTERM):
            signal.signal(signum, signal.SIG_IGN)

    @property
    def exit_code(self) -> int:
        return 128 + self.received

    def _stop(self, signum: int, _frame: FrameType | None) -> NoReturn:
        self.received = signal.Signals(signum)
        raise KeyboardInterrupt
