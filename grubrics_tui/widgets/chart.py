"""A line chart with its legend, or its values as a table."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from engine.base.quantities import format_number
from engine.base.ticks import Range
from engine.run.history.columns import Column, Floats
from engine.run.history.plot import Band, Line, Plot, Writer
from grubrics_tui.drawing.axis import steps_at
from grubrics_tui.drawing.legend import legend
from grubrics_tui.drawing.plot import Frame, framed, y_range
from grubrics_tui.drawing.prepare import Smoother, on_axis, view_of
from grubrics_tui.drawing.redraw_cache import RedrawCheck, can_be_reused
from grubrics_tui.drawing.spans import Row
from grubrics_tui.drawing.table import neighbor, table
from grubrics_tui.drawing.view import View
from grubrics_tui.model.history import History
from grubrics_tui.widgets.chart_base import ChartBase


def line_of(
    history: History,
    name: str,
    label: str,
    write: Writer = format_number,
    *,
    ink: str = "series-1",
    bands: tuple[Band, ...] = (),
) -> Line:
    """A metric of a run as a line, with its label and value format in the legend."""
    column = history.series(name)
    return Line(column.steps, column.values, label, write, ink=ink, bands=bands, source=column)


class Chart(ChartBase):
    """Shows a ``Plot`` below its legend; without data, a hint.

    The plot is built when it is drawn, so a hidden chart costs nothing.
    """

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._build: Callable[[], Plot] = Plot
        self._built: Plot | None = None
        self._smoother = Smoother()
        self._body_drawn_for: tuple[object, ...] = ()
        self._redraw_check: RedrawCheck | None = None
        self._body: list[Row] = []
        self._frame: Frame | None = None
        self._grows_since: object = None
        self._y: Range | None = None
        self._last_y: Range | None = None

    def show(
        self,
        build: Callable[[], Plot],
        version: object,
        hint: str = "",
        *,
        grows_since: object = None,
    ) -> None:
        """Draw the plot that ``build`` returns, if ``version`` or ``hint`` has changed.

        ``version`` grows with the data, e.g. ``history.version``. While ``grows_since`` stays the
        same, data were only added at the end, so that parts of the drawing are reused; with None
        nothing is reused.
        """
        self._build, self._grows_since = build, grows_since
        if self._is_new(version, hint):
            self._built = None
            self.redraw(hint)

    @property
    def plot(self) -> Plot:
        """The plot, with steps as its x values."""
        if self._built is None:
            self._built = self._build()
        return self._built

    @property
    def clock(self) -> Column | None:
        return self.plot.clock or next((line.clock for line in self.plot.lines), None)

    def extent(self) -> Range | None:
        if self.plot.timed and self.view.axis == "step":
            return None
        return on_axis(self.plot, self.view.axis).extent()

    def next_x(self, cells: int) -> float | None:
        if self.view.table:
            return self._next_row(cells)
        extent = self.extent()
        if extent is None:
            return None
        if self.view.cursor is None:
            return extent.high if cells < 0 else self.view.shown(extent).low
        cell = self.view.shown(extent).size / max(1, self.size.width - 6)
        return self._entry(self.view.cursor, cells, cell) or self.view.cursor

    def x_at(self, cell: int) -> float | None:
        frame = self._frame
        if frame is None or self.view.table or self.extent() is None:
            return None
        place = (cell - (self.size.width - frame.width)) / (frame.width - 1)
        return frame.x.low + min(1.0, max(0.0, place)) * frame.x.size

    def nearest_x(self, x: float) -> float | None:
        entries = [values.x for values in on_axis(self.plot, self.view.axis).drawn if values.x.size]
        nearest = [float(xs[np.abs(xs - x).argmin()]) for xs in entries]
        return min(nearest, key=lambda entry: abs(entry - x), default=None)

    def draw(self, width: int, height: int) -> list[Row]:
        if self.view.table:
            return (
                [] if self.plot.is_empty else table(self.plot, self._cursor_step(), width, height)
            )
        view = view_of(self.plot, self.view)
        plot = self._smoother.smooth(on_axis(self.plot, view.axis), view.smoothing)
        head, rows = self._below(self.head(plot, view, width), height)
        if plot.is_empty:
            return head + self._hinted(width, rows)
        return head + self._plot_rows(plot, view, width, rows)

    def head(self, plot: Plot, view: View, width: int) -> list[Row]:
        """The rows above the plot, which is on the view's axis, without logarithms."""
        return legend(plot, view, width, self._legend_style)

    def _plot_rows(self, plot: Plot, view: View, width: int, height: int) -> list[Row]:
        """The rows of the plot; only what changed is drawn again."""
        fixed_y = self._y if view.log_y else plot.y or self._y
        in_ascii = self._legend_style.drawn_in_ascii(len(plot.lines))
        drawn_for = (view, width, height, in_ascii, fixed_y, self._grows_since)
        if (
            self._redraw_check is not None
            and drawn_for == self._body_drawn_for
            and self._redraw_check.holds(plot)
        ):
            return self._body
        self._last_y = fixed_y or y_range(plot, view)
        self._body, frame = framed(plot, view, width, height, y=self._last_y, ascii_only=in_ascii)
        self._redraw_check, self._frame = None, frame
        if frame is not None and self._grows_since is not None and can_be_reused(view):
            self._redraw_check = RedrawCheck(plot, view, frame, y_follows=fixed_y is None)
        self._body_drawn_for = drawn_for
        return self._body

    def _view_changed(self, before: View, now: View) -> None:
        """Locking keeps the y range that was drawn last, until the scale changes."""
        if not now.locked or before.log_y != now.log_y:
            self._y = None
        elif not before.locked:
            self._y = self._last_y

    def _cursor_step(self) -> float | None:
        if self.view.cursor is None or self.plot.timed:
            return None
        cursor = np.array([self.view.cursor])
        return float(np.rint(steps_at(cursor, self.clock, self.view.axis))[0])

    def _next_row(self, rows: int) -> float | None:
        step = neighbor(self.plot, self._cursor_step(), rows)
        if step is None or self.view.axis == "step":
            return step
        converted = on_axis(
            Plot((Line(np.array([step]), np.zeros(1)),), clock=self.clock), self.view.axis
        )
        return float(converted.lines[0].x[0])

    def _entry(self, cursor: float, cells: int, cell: float) -> float | None:
        """The entry at least one step and at least that many cells from the cursor."""
        candidates = [
            x
            for values in on_axis(self.plot, self.view.axis).drawn
            if (x := _beyond(values.x, cursor, cells, cell)) is not None
        ]
        return min(candidates, key=lambda x: abs(x - cursor - cells * cell), default=None)


def _beyond(x: Floats, cursor: float, cells: int, cell: float) -> float | None:
    """The first of ``x`` at that distance beyond the cursor, else the last one beyond it."""
    if cells > 0:
        nearest = int(np.searchsorted(x, cursor, side="right"))
        wanted = int(np.searchsorted(x, cursor + cells * cell, side="left"))
        index = min(max(nearest, wanted), x.size - 1)
        return float(x[index]) if x.size and x[index] > cursor else None
    nearest = int(np.searchsorted(x, cursor, side="left")) - 1
    wanted = int(np.searchsorted(x, cursor + cells * cell, side="right")) - 1
    index = max(0, min(nearest, wanted))
    return float(x[index]) if x.size and x[index] < cursor else None
