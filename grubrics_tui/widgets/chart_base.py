"""Base of charts: they share one view with the others on their screen."""

from __future__ import annotations

from textual.message import Message

from engine.base.ticks import Range
from engine.history.columns import Column
from grubrics_tui.drawing.chart_data import View
from grubrics_tui.drawing.legend import Look
from grubrics_tui.drawing.spans import Row
from grubrics_tui.widgets.span_widget import SpanWidget


class ChartBase(SpanWidget):
    """A ``ChartScreen`` sets the view; subclasses draw."""

    class Joined(Message):
        """A chart was mounted and needs the view."""

        def __init__(self, chart: ChartBase) -> None:
            super().__init__()
            self.chart = chart

    class ViewChosen(Message):
        """The mouse has chosen another view."""

        def __init__(self, view: View) -> None:
            super().__init__()
            self.view = view

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self.view = View()
        self.is_shared = False
        """Whether a screen sets the view."""
        self._version: object = None

    def on_mount(self) -> None:
        super().on_mount()
        self.post_message(self.Joined(self))

    def apply_view(self, view: View) -> None:
        """Draw the data in this view."""
        self.is_shared = True
        if view != self.view:
            self._view_changed(self.view, view)
            self.view = view
            self.redraw(self._hint)

    def extent(self) -> Range | None:
        """From the first to the last x value, in units of the view's axis; None without data."""
        raise NotImplementedError

    @property
    def clock(self) -> Column | None:
        """When each step was logged."""
        raise NotImplementedError

    def next_x(self, cells: int) -> float | None:
        """The x value of the entry so many columns of the chart, or rows of the table, from the
        cursor; None without data."""
        raise NotImplementedError

    def end_x(self, newest: bool) -> float | None:
        """The first or the newest entry."""
        extent = self.extent()
        return None if extent is None else extent.high if newest else extent.low

    def _view_changed(self, before: View, now: View) -> None:
        """Hook: keep something of the old view."""

    def _is_new(self, version: object, hint: str) -> bool:
        """Whether the data differ from those that are shown; remembers them."""
        if version == self._version and hint == self._hint:
            return False
        self._version = version
        return True

    @property
    def _legend_style(self) -> Look:
        return Look(self.ascii_only, self.colorless)

    def _below(self, head: list[Row], height: int) -> tuple[list[Row], int]:
        """The head, at most a third of the height, and the number of rows below it."""
        limit = max(1, height // 3)
        return head[:limit], max(0, height - min(len(head), limit))
