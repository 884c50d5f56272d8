"""Bars of how full and how busy the machine is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from grubrics_tui.drawing.gauge import bar
from grubrics_tui.drawing.spans import Row, Span
from grubrics_tui.widgets.span_widget import Drawn

_LABEL, _PERCENT, _SMALLEST_BAR = 12, 6, 4


@dataclass(frozen=True)
class Gauge:
    """``share`` is None when it cannot be measured; ``detail`` says it in units."""

    label: str
    share: float | None
    detail: str
    ink: str


class Gauges(Drawn):
    """One line per gauge: label, bar, percent, detail."""

    DEFAULT_CSS = "Gauges { height: auto; }"

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._gauges: Sequence[Gauge] = ()

    @property
    def lines(self) -> int:
        return max(1, len(self._gauges))

    def show(self, gauges: Sequence[Gauge], hint: str = "") -> None:
        if gauges == self._gauges and hint == self._hint:
            return
        self._gauges = gauges
        if self.styles.height is None or self.styles.height.value != self.lines:
            self.styles.height = self.lines  # Only then is the screen laid out anew.
        self.redraw(hint)

    def draw(self, width: int, height: int) -> list[Row]:
        detail = max((len(gauge.detail) for gauge in self._gauges), default=0)
        room = max(_SMALLEST_BAR, width - _LABEL - _PERCENT - detail - 2)
        return [self._row(gauge, room) for gauge in self._gauges]

    def _row(self, gauge: Gauge, room: int) -> Row:
        label = Span(gauge.label[: _LABEL - 1].ljust(_LABEL), "quiet")
        filled = bar(gauge.share or 0.0, room, gauge.ink, ascii_only=self.ascii_only)
        percent = "–" if gauge.share is None else f"{gauge.share * 100:.0f} %"
        return [label, *filled, Span(percent.rjust(_PERCENT)), Span(f"  {gauge.detail}", "quiet")]
