"""Three lines: the run and its state, progress and time, the last values."""

from __future__ import annotations

import time

from grubrics_tui.drawing.run_head import draw_run_head
from grubrics_tui.drawing.spans import Row, Span
from grubrics_tui.model.history import History
from grubrics_tui.widgets.span_widget import SpanWidget

_TICK_S = 1.0


class RunHeader(SpanWidget):
    """Redrawn only if one of its values changed."""

    DEFAULT_CSS = "RunHeader { height: 3; margin: 0 1; padding: 0 1; }"

    def __init__(self, run_id: str, kind: str, source: str = "") -> None:
        """``source`` names the format of an external run."""
        super().__init__()
        self._run_id, self._kind, self._source = run_id, kind, source
        self._history: History | None = None
        self._shown: list[Row] = []
        self._next: list[Row] | None = None
        self._drawn = 0.0

    def on_mount(self) -> None:
        super().on_mount()
        self.set_interval(_TICK_S, self._tick)

    def show(self, history: History) -> None:
        self._history = history
        self._refresh()

    def draw(self, width: int, height: int) -> list[Row]:
        self._shown = self._next or self._rows(width)
        return self._shown

    def _tick(self) -> None:
        """Update the clock, unless a step has just redrawn the header."""
        if time.monotonic() - self._drawn > _TICK_S * 0.95:
            self._refresh()

    def _refresh(self) -> None:
        self._drawn = time.monotonic()
        rows = self._rows(self.size.width)
        if rows != self._shown:
            self._next = rows
            self.redraw()
            self._next = None

    def _rows(self, width: int) -> list[Row]:
        if self._history is None:
            return [[Span(self._run_id, bold=True)], [], []]
        return draw_run_head(
            self._run_id,
            self._kind,
            self._history,
            width,
            source=self._source,
            ascii_only=self.ascii_only,
        )
