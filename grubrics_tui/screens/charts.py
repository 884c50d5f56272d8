"""Base of screens with charts: zoom, pan, cursor, axes, smoothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np
from textual import on
from textual.reactive import reactive

from grubrics_tui.drawing.axis import X_AXES, XAxis, has_times, places, steps_at
from grubrics_tui.drawing.view import BANDS, SMOOTHING, View
from grubrics_tui.screens.base import CockpitScreen
from grubrics_tui.widgets.chart_base import ChartBase

T = TypeVar("T")


class ChartScreen(CockpitScreen):
    """All its charts share one view, so that their cursors are at the same step.

    Keys act on the view through ``current_chart``, which computes x values from cells. The actions
    are those of charts in ``actions.json``; they are offered while there is a current chart.
    """

    view: reactive[View] = reactive(View())

    def current_chart(self) -> ChartBase | None:
        """The chart that the keys act on; None if they act on something else."""
        return next((chart for chart in self.query(ChartBase) if chart.is_on_screen), None)

    def watch_view(self, view: View) -> None:
        for chart in self.query(ChartBase):
            chart.apply_view(view)

    @on(ChartBase.Joined)
    def _share(self, message: ChartBase.Joined) -> None:
        message.chart.apply_view(self.view)

    @on(ChartBase.ViewChosen)
    def _choose_view(self, message: ChartBase.ViewChosen) -> None:
        self.view = message.view

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "chart_row":
            return self.view.table and self.current_chart() is not None
        if action.startswith("chart_"):
            return self.current_chart() is not None
        return super().check_action(action, parameters)

    def clear_view(self) -> bool:
        """Reset table, cursor or zoom, one at a time, for escape. False if none is set."""
        view = self.view
        if view.table:
            self.view = replace(view, table=False)
        elif view.cursor is not None:
            self.view = replace(view, cursor=None)
        elif view.is_zoomed:
            self.view = replace(view, window=None, tail=None)
        return view != self.view

    def action_chart_zoom(self, factor: float) -> None:
        if (chart := self.current_chart()) is not None and (extent := chart.extent()) is not None:
            self.view = self.view.zoomed(factor, extent)

    def action_chart_pan(self, share: float) -> None:
        if (chart := self.current_chart()) is not None and (extent := chart.extent()) is not None:
            self.view = self.view.panned(share, extent)

    def action_chart_reset(self) -> None:
        self.view = self.view.reset()

    def action_chart_cursor(self, places: int) -> None:
        if (chart := self.current_chart()) is not None:
            self._point(chart, chart.next_x(places))

    def action_chart_row(self, rows: int) -> None:
        self.action_chart_cursor(rows)

    def action_chart_end(self, newest: bool) -> None:
        if (chart := self.current_chart()) is not None:
            self._point(chart, chart.end_x(newest))

    def action_chart_axis(self) -> None:
        """Show the next x axis; zoom and cursor keep their position."""
        chart = self.current_chart()
        if chart is None:
            return
        if not has_times(chart.clock):
            self.notify("the steps of this run have no timestamps", markup=False)
            return
        self.view = _converted(self.view, _next(X_AXES, self.view.axis), chart)

    def action_chart_log(self) -> None:
        self.view = replace(self.view, log_y=not self.view.log_y)

    def action_chart_lock(self) -> None:
        self.view = replace(self.view, locked=not self.view.locked)

    def action_chart_smooth(self) -> None:
        self.view = replace(self.view, smoothing=_next(SMOOTHING, self.view.smoothing))

    def action_chart_band(self) -> None:
        self.view = replace(self.view, band=_next(BANDS, self.view.band))

    def action_chart_table(self) -> None:
        self.view = replace(self.view, table=not self.view.table)

    def _point(self, chart: ChartBase, x: float | None) -> None:
        if x is not None and (extent := chart.extent()) is not None:
            self.view = self.view.pointing(x, extent)


def _next(options: Sequence[T], now: T) -> T:
    index = options.index(now) if now in options else -1
    return options[(index + 1) % len(options)]


def _converted(view: View, axis: XAxis, chart: ChartBase) -> View:
    """The same part of the same run, in units of another axis."""

    def moved(x: float) -> float:
        steps = steps_at(np.array([x]), chart.clock, view.axis)
        return float(places(steps, chart.clock, axis)[0])

    window, tail, extent = view.window, view.tail, chart.extent()
    if window is not None:
        low, high = moved(window.low), moved(window.high)
        window = type(window)(low, high) if high > low else None
    if tail is not None and extent is not None:
        tail = moved(extent.high) - moved(extent.high - tail) or None
    cursor = None if view.cursor is None else moved(view.cursor)
    return replace(view, axis=axis, window=window, tail=tail, cursor=cursor)
