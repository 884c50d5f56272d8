"""How charts are looked at: the part in view, the cursor, the scale, smoothing and bands."""

from __future__ import annotations

from dataclasses import dataclass, replace

from engine.base.ticks import Range
from engine.run.history.plot import BandKind
from grubrics_tui.drawing.axis import XAxis

BANDS: tuple[BandKind, ...] = ("spread", "extremes", "none")
SMOOTHING = (0.0, 0.6, 0.9, 0.97, 0.99)
"""Weights of the moving average, as W&B and TensorBoard count them; 0 is none."""

_SMALLEST = 1e-4
"""The part of all data that the deepest zoom still shows; a window of two units is always kept."""


@dataclass(frozen=True)
class View:
    """``window``, ``tail`` and ``cursor`` are in units of the x axis: steps, seconds since the
    first step, or unix seconds.

    With neither ``window`` nor ``tail`` everything is shown; ``tail`` follows the newest data and
    shows its last so many units. ``locked`` keeps the y range as it is.
    """

    axis: XAxis = "step"
    window: Range | None = None
    tail: float | None = None
    cursor: float | None = None
    log_y: bool = False
    smoothing: float = 0.0
    band: BandKind = "spread"
    locked: bool = False
    table: bool = False

    @property
    def is_zoomed(self) -> bool:
        return self.window is not None or self.tail is not None

    def shown(self, extent: Range) -> Range:
        """The part of ``extent``, which is where the data are, that is on the screen."""
        if self.tail is not None:
            return Range(extent.high - self.tail, extent.high)
        return self.window or extent

    def zoomed(self, factor: float, extent: Range, about: float | None = None) -> View:
        """``factor`` times as much, around ``about``, else the cursor, else the newest end."""
        shown = self.shown(extent)
        whole, size = extent.size, shown.size * factor
        size = max(size, min(whole, max(2.0, whole * _SMALLEST)))
        place = self.cursor if about is None else about
        middle = shown.high if place is None else place
        share = min(1.0, max(0.0, shown.share(middle)))
        low = shown.low + share * shown.size - share * size
        return self._at(low, size, extent)

    def between(self, low: float, high: float, extent: Range) -> View:
        """What is between two places, or a little more where that is next to nothing."""
        size = max(high - low, min(extent.size, max(2.0, extent.size * _SMALLEST)))
        return self._at(max(extent.low, min(low, extent.high - size)), size, extent)

    def panned(self, share: float, extent: Range) -> View:
        """Moved by a share of what is shown; positive is to newer data."""
        shown = self.shown(extent)
        return self._at(shown.low + share * shown.size, shown.size, extent)

    def pointing(self, place: float | None, extent: Range) -> View:
        """With the cursor at ``place``, moved along when that is outside what is shown."""
        view = replace(self, cursor=place)
        shown = self.shown(extent)
        if place is None or shown.low <= place <= shown.high:
            return view
        low = place if place < shown.low else place - shown.size
        return view._at(low, shown.size, extent)

    def reset(self) -> View:
        """Everything, and no cursor; how lines are drawn stays as it is."""
        return replace(self, window=None, tail=None, cursor=None, locked=False)

    def _at(self, low: float, size: float, extent: Range) -> View:
        """A window inside ``extent``; it follows when it touches the newest end."""
        if size >= extent.size:
            return replace(self, window=None, tail=None)
        low = max(low, extent.low)
        if low + size >= extent.high - size * 1e-6:
            return replace(self, window=None, tail=size)
        return replace(self, window=Range(low, low + size), tail=None)
