"""Base of charts: they share one view with the others on their screen; keys and mouse set it."""

from __future__ import annotations

from dataclasses import dataclass

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.message import Message
from textual.strip import Strip

from engine.base.ticks import Range
from engine.run.history.columns import Column
from grubrics_tui.drawing.legend import Look
from grubrics_tui.drawing.spans import Row
from grubrics_tui.drawing.view import View
from grubrics_tui.widgets.span_widget import SpanWidget

_CLOSER, _FURTHER = 0.8, 1.25
_PAN = 0.1
_SHORTEST_DRAG = 2
"""Cells; a hand that clicks may move by one."""
_RIGHT = 3


class ChartBase(SpanWidget):
    """A ``ChartScreen`` sets the view; subclasses draw.

    A click sets the cursor, a drag zooms into the range, and the wheel zooms about the pointer;
    with shift, or sideways, it pans. A right click resets; so does a double click in a zoomed
    chart.
    """

    @dataclass
    class Joined(Message):
        """A chart was mounted and needs the view."""

        chart: ChartBase

    @dataclass
    class ViewChosen(Message):
        """The mouse has chosen another view."""

        view: View

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

    _pressed_at: int | None = None
    _dragged_to: int | None = None

    def x_at(self, cell: int) -> float | None:
        """The x value in a column of cells, in units of the view's axis; None without data."""
        raise NotImplementedError

    def nearest_x(self, x: float) -> float | None:
        """The x value of the entry that is nearest."""
        raise NotImplementedError

    def render_line(self, y: int) -> Strip:
        strip = super().render_line(y)
        if self._pressed_at is None or self._dragged_to is None:
            return strip
        low, high = sorted((self._pressed_at, self._dragged_to))
        paper = Style(bgcolor=self.app.theme_variables.get("track"))
        middle = Segment.apply_style(strip.crop(low, high + 1), post_style=paper)
        return Strip.join([strip.crop(0, low), Strip(middle), strip.crop(high + 1)])

    def on_mouse_down(self, event: events.MouseDown) -> None:
        self._dragged_to = None
        if event.button == 1 and self.is_shared and self.x_at(0) is not None:
            self._pressed_at = self._cell(event)
            self.capture_mouse()

    def on_mouse_move(self, event: events.MouseMove) -> None:
        if self._pressed_at is not None:
            cell = self._cell(event)
            is_drag = self._dragged_to is not None or abs(cell - self._pressed_at) >= _SHORTEST_DRAG
            if is_drag and cell != self._dragged_to:
                self._dragged_to = cell
                self.refresh()

    def on_mouse_up(self, event: events.MouseUp) -> None:
        self.release_mouse()
        pressed, dragged = self._pressed_at, self._dragged_to
        self._pressed_at = None
        if pressed is not None and dragged is not None:
            self.refresh()
            ends = sorted(x for x in (self.x_at(pressed), self.x_at(dragged)) if x is not None)
            if (extent := self.extent()) is not None and len(ends) == 2:
                self._choose(self.view.between(ends[0], ends[1], extent))

    def on_click(self, event: events.Click) -> None:
        """Comes after the button was released, at the end of a drag too."""
        was_dragged, self._dragged_to = self._dragged_to is not None, None
        if was_dragged:
            event.stop()
        elif event.button == _RIGHT or (event.chain == 2 and self.view.is_zoomed):
            event.stop()
            self._choose(self.view.reset())
        elif event.button == 1 and event.chain == 1:
            self._point(self._cell(event))

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        self._turn(event, _CLOSER, -_PAN)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        self._turn(event, _FURTHER, _PAN)

    def on_mouse_scroll_left(self, event: events.MouseScrollLeft) -> None:
        self._pan(-_PAN)

    def on_mouse_scroll_right(self, event: events.MouseScrollRight) -> None:
        self._pan(_PAN)

    def _turn(self, event: events.MouseEvent, factor: float, share: float) -> None:
        """A notch of the wheel."""
        event.stop()
        x, extent = self.x_at(self._cell(event)), self.extent()
        if event.shift:
            self._pan(share)
        elif x is not None and extent is not None:
            self._choose(self.view.zoomed(factor, extent, about=x))

    def _pan(self, share: float) -> None:
        if self.x_at(0) is not None and (extent := self.extent()) is not None:
            self._choose(self.view.panned(share, extent))

    def _point(self, cell: int) -> None:
        x, extent = self.x_at(cell), self.extent()
        if x is not None and extent is not None:
            self._choose(self.view.pointing(self.nearest_x(x), extent))

    def _choose(self, view: View) -> None:
        if view != self.view:
            self.post_message(self.ViewChosen(view))

    def _cell(self, event: events.MouseEvent) -> int:
        """The column under the pointer, or the one at the edge that it has left."""
        offset = event.get_content_offset_capture(self)
        return max(0, min(offset.x, self.size.width - 1))
