"""A full screen of text that is longer than it."""

from __future__ import annotations

from textual.containers import VerticalScroll

from grubrics_tui.screens.base import CockpitScreen


class ScrolledScreen(CockpitScreen):
    """The cursor's keys scroll its one ``VerticalScroll``."""

    def action_back(self) -> None:
        self.app.pop_screen()

    def action_cursor_down(self) -> None:
        self.query_one(VerticalScroll).scroll_down(animate=False)

    def action_cursor_up(self) -> None:
        self.query_one(VerticalScroll).scroll_up(animate=False)
