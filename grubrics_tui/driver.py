"""The terminal, written to sparingly."""

from __future__ import annotations

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

    def write(self, data: str) -> None:
        with self._lock:
            if sent := self._shown.sent(data):
                super().write(sent)
