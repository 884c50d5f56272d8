"""The terminal, written to sparingly and left as it was found."""

from __future__ import annotations

import asyncio
import io
import sys
import threading
from typing import TYPE_CHECKING, Any

from textual.drivers.linux_driver import LinuxDriver

from grubrics_tui.app.terminal_diff import Shown

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
        _write_whole()
        super().__init__(app, debug=debug, mouse=mouse, size=size)
        self._shown = Shown()
        # The thread that reads keys writes too; a signal may come in the middle of a frame.
        self._lock = threading.RLock()
        self._event_loop = asyncio.get_running_loop()
        self._suspended = self._is_due = False

    def write(self, data: str) -> None:
        with self._lock:
            if sent := self._shown.sent(data):
                super().write(sent)

    def suspend_application_mode(self) -> None:
        super().suspend_application_mode()
        self._suspended = True

    def resume_application_mode(self) -> None:
        """Also called for a SIGCONT that follows no suspension, but a ``kill -STOP``.

        Then the terminal still is the program's, except that a shell may have drawn on it. To enter
        it a second time would write from two threads, and leave it without an echo at the end.
        """
        if self._suspended:
            self._suspended = False
            super().resume_application_mode()
        elif not (self._is_due or self._event_loop.is_closed()):
            self._is_due = True
            # The signal may have come in the middle of a write, which holds the lock of its queue.
            self._event_loop.call_soon_threadsafe(self._start_over)

    def _start_over(self) -> None:
        self._is_due = False
        self.suspend_application_mode()
        self.resume_application_mode()


def _write_whole() -> None:
    """Give the terminal's stream a buffer where it has none, as with ``PYTHONUNBUFFERED``.

    Python forgets the rest of an unbuffered write that is interrupted, as it is when the program or
    the whole machine is paused.
    """
    stream = sys.__stderr__
    if stream is not None and isinstance(stream.buffer, io.RawIOBase):
        number, encoding, errors = stream.fileno(), stream.encoding, stream.errors
        whole = open(number, "w", encoding=encoding, errors=errors, closefd=False)  # noqa: SIM115
        sys.__stderr__ = whole  # type: ignore[misc]
