"""Ending a run with ever harder signals."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable

from engine.supervise.settings import Supervision


class Escalation:
    """SIGINT, SIGTERM, SIGKILL, each after the patience of the one before has run out."""

    def __init__(
        self,
        send: Callable[[signal.Signals], None],
        supervision: Supervision,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._send = send
        self._now = now
        self._left = [
            (signal.SIGINT, supervision.interrupt_patience_s),
            (signal.SIGTERM, supervision.terminate_patience_s),
            (signal.SIGKILL, 0.0),
        ]
        self._due = 0.0

    def tick(self) -> None:
        """Send the next signal when it is due."""
        if self._left and self._now() >= self._due:
            number, patience = self._left.pop(0)
            self._send(number)
            # From here: who was slow to send it has not used up any of the patience.
            self._due = self._now() + patience
