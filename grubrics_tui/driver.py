"""The terminal, written to sparingly and left as it was found."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

from textual.drivers.linux_driver import LinuxDriver

from grubrics_tui.shown import Shown

if TYPE_CHECKING:
    from textual.app import App


class SparingDriver(LinuxDriver):
    """Textual's driver, but a cell that shows what it should already is not written again."""

    def __init__(
        self,
        app: App[Any],
        *,
        debug: bool = False,
        mouse: bool = True,
        size: tuple[int, int] | None = None,
    ) -> None:
        super().__init__(app, debug=debug, mouse=mouse, size=size)
        self._shown = Shown()
        # The thread that reads keys writes too; a signal may come in the middle of a frame.
        self._lock = threading.RLock()
        self._event_loop = asyncio.get_running_loop()
        self._suspended = False

    def write(self, data: str) -> None:
        with self._lock:
            if sent := self._shown.sent(data):
                super().write(sent)

    def suspend_application_mode(self) -> None:
        self._suspended = True
        super().suspend_application_mode()

    def resume_application_mode(self) -> None:
        """Also called for a SIGCONT that follows no suspension, but a ``kill -STOP``.

        Then the terminal still is the program's, except that a shell may have drawn on it. To enter
        it a second time would write from two threads, and leave it without an echo at the end.
        """
        if self._suspended:
            self._suspended = False
            super().resume_application_mode()
        else:
            # The signal may have come in the middle of a write, which holds the lock of its queue.
            self._event_loop.call_soon_threadsafe(self._start_over)

    def _start_over(self) -> None:
        self.suspend_application_mode()
        self.resume_application_mode()
