"""A line chart of a run's numbers."""

from __future__ import annotations

from grubrics_tui.drawing.plot import Plot, render
from grubrics_tui.drawing.spans import Row
from grubrics_tui.widgets.drawn import Drawn


class Chart(Drawn):
    """Shows one ``Plot``; without data, a hint."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._plot = Plot(())

    def show(self, plot: Plot, hint: str = "") -> None:
        if plot == self._plot and hint == self._hint:
            return
        self._plot = plot
        self.redraw(hint)

    def draw(self, width: int, height: int) -> list[Row]:
        # One line of braille needs no colour to be read; several do.
        ascii_only = self.ascii_only or (self.colourless and len(self._plot.lines) > 1)
        return render(self._plot, width, height, ascii_only=ascii_only)
