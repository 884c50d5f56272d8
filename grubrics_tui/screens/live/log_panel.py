"""The trainer's own words."""

from __future__ import annotations

from textual import on
from textual.app import ComposeResult

from grubrics_tui.model.history import History
from grubrics_tui.widgets.log_view import LogView
from grubrics_tui.widgets.panel import Panel

_INDENT = 4
"""Cells: a panel is narrow, and verl prints its configuration far to the right."""


class LogPanel(Panel):
    """The console of the run's last attempt, harmless and followed. The view reads it itself, in
    the rhythm of the screen's looks at the run."""

    TITLE = "log"

    def compose(self) -> ComposeResult:
        yield LogView(paced=True, indent=_INDENT)

    def show(self, history: History) -> None:
        """Nothing of the history: the log has its own file."""

    @on(LogView.Changed)
    def show_place(self) -> None:
        """Say in the frame whether new lines move the text."""
        view = self.query_one(LogView)
        place = "following" if view.following else "scrolled up: end follows again"
        self.note(f"{view.notice}   {place}" if view.notice else place)
