"""The trainer's own words."""

from __future__ import annotations

from textual.app import ComposeResult

from grubrics_tui.history import History
from grubrics_tui.widgets.log_tail import LogTail
from grubrics_tui.widgets.panel import Panel


class LogPanel(Panel):
    """The console of the run's last attempt, harmless and followed."""

    TITLE = "log"

    def compose(self) -> ComposeResult:
        yield LogTail()

    def show(self, history: History) -> None:
        fresh = history.take_console()
        if fresh:
            self.query_one(LogTail).extend(fresh)
        self.show_place()

    def show_place(self) -> None:
        """Say in the frame whether new lines move the text."""
        following = self.query_one(LogTail).following
        self.border_subtitle = "following" if following else "scrolled up: end follows again"
