"""Stacked columns of a run's step times, below their legend."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from engine.base.ticks import Range
from engine.history.columns import Column
from grubrics_tui.drawing.axis import format_place, places, steps_at
from grubrics_tui.drawing.chart_data import Line, Plot
from grubrics_tui.drawing.legend import entry, wrap
from grubrics_tui.drawing.redraw_cache import can_be_reused
from grubrics_tui.drawing.spans import Row, Span
from grubrics_tui.drawing.stacked import KeptStacks, Stacks, drawn, x_of
from grubrics_tui.drawing.table import neighbor, table
from grubrics_tui.text.formats import fixed
from grubrics_tui.widgets.chart_mouse import MouseChart

_seconds = partial(fixed, decimals=2)
EMPTY = Stacks((), np.empty(0), np.empty((0, 0)))


class StackedBar(MouseChart):
    """Shows one column per step, or per few steps when there are more than columns."""

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._build: Callable[[], Stacks] = lambda: EMPTY
        self._built: Stacks | None = None
        self._clock: Column | None = None
        self._body_drawn_for: tuple[object, ...] = ()
        self._reusable: KeptStacks | None = None
        self._body: list[Row] = []
        self._grows_since: object = None

    def show(
        self,
        build: Callable[[], Stacks],
        version: object,
        hint: str = "",
        clock: Column | None = None,
        *,
        grows_since: object = None,
    ) -> None:
        """As ``Chart.show``; ``clock`` holds the time of each step."""
        self._build, self._clock, self._grows_since = build, clock, grows_since
        if self._is_new(version, hint):
            self._built = None
            self.redraw(hint)

    @property
    def stacks(self) -> Stacks:
        """What is shown, along steps."""
        if self._built is None:
            self._built = self._build()
        return self._built

    @property
    def clock(self) -> Column | None:
        return self._clock

    def extent(self) -> Range | None:
        x = self._on_axis().x
        return Range(float(x[0]), max(float(x[-1]), float(x[0]) + 1)) if x.size else None

    def next_x(self, cells: int) -> float | None:
        x, cursor = self._on_axis().x, self.view.cursor
        if not x.size:
            return None
        if self.view.table:
            step = neighbor(self._plot(), self._step(cursor), cells)
            return None if step is None else float(x[np.searchsorted(self.stacks.x, step)])
        if cursor is None:
            return float(x[-1 if cells < 0 else 0])
        index = int(np.searchsorted(x, cursor))
        steps_per_column = max(1, int(self._shown().x.size // max(1, self.size.width - 6)))
        return float(x[min(max(0, index + cells * steps_per_column), x.size - 1)])

    def x_at(self, cell: int) -> float | None:
        if self.view.table:
            return None
        width, height = self.size
        rows = self._below(self._legend(width), height)[1] if self.stacks.x.size else 0
        return x_of(self._shown(), width, rows, cell)

    def nearest_x(self, x: float) -> float | None:
        return x  # Each column is a step, or the first of a few.

    def draw(self, width: int, height: int) -> list[Row]:
        if not self.stacks.x.size:
            return []
        if self.view.table:
            return table(self._plot(), self._step(self.view.cursor), width, height)
        shown = self._shown()
        head, rows = self._below(self._legend(width), height)
        return head + self._plot_rows(shown, width, rows)

    def _plot_rows(self, shown: Stacks, width: int, height: int) -> list[Row]:
        """The rows of the bars; those of the last drawing while they are right."""
        view, letters = self.view, self.colorless
        drawn_for = (view, width, height, letters, shown.parts, self._grows_since)
        if (
            self._reusable is not None
            and drawn_for == self._body_drawn_for
            and self._reusable.hold(shown)
        ):
            return self._body
        self._body, reusable = drawn(
            shown, width, height, axis=view.axis, cursor=view.cursor, letters=letters
        )
        self._reusable = reusable if self._grows_since is not None and can_be_reused(view) else None
        self._body_drawn_for = drawn_for
        return self._body

    def _on_axis(self) -> Stacks:
        stacks = self.stacks
        return Stacks(stacks.parts, places(stacks.x, self._clock, self.view.axis), stacks.sizes)

    def _shown(self) -> Stacks:
        extent = self.extent()
        stacks = self._on_axis()
        return stacks if extent is None else stacks.inside(self.view.shown(extent))

    def _step(self, cursor: float | None) -> float | None:
        if cursor is None:
            return None
        return float(np.rint(steps_at(np.array([cursor]), self._clock, self.view.axis))[0])

    def _legend(self, width: int) -> list[Row]:
        """The parts of the step at the cursor, else of the newest; those that took no time are
        left out."""
        stacks, cursor = self._on_axis(), self.view.cursor
        index = -1
        entries: list[Row] = []
        if cursor is not None:
            index = max(0, int(np.searchsorted(stacks.x, cursor, side="right")) - 1)
            name = "step " if self.view.axis == "step" else ""
            position = format_place(float(stacks.x[index]), self.view.axis, float(np.ptp(stacks.x)))
            entries.append([Span(f"{name}{position}", "cursor", bold=True)])
        for part, size in zip(stacks.parts, stacks.sizes[index].tolist(), strict=True):
            if size > 0:
                key = part.letter if self.colorless else "▪"
                entries.append(entry(key, part.ink, part.name, _seconds(size)))
        return wrap(entries, width)

    def _plot(self) -> Plot:
        stacks = self.stacks
        lines = [
            Line(stacks.x, stacks.sizes[:, index], part.name, _seconds)
            for index, part in enumerate(stacks.parts)
        ]
        return Plot(tuple(lines), clock=self._clock)
