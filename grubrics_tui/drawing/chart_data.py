"""What a chart shows: its lines, bands, marks and flags, and the part of them in view.

Everything is along ascending steps, as in ``engine.run.history.columns``; a chart of time turns
steps into times when it draws.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from engine.base.quantities import format_number
from engine.base.ticks import Range
from engine.run.history.columns import Column, Floats
from grubrics_tui.drawing.axis import XAxis

BandKind = Literal["spread", "extremes", "none"]

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


Writer = Callable[[float | None], str]


@dataclass(frozen=True, eq=False)
class Values:
    """A named quantity along ascending ``x``; a NaN is a gap. ``write`` puts a value in words.

    ``clock`` holds the time of each step, where it is not the plot's: runs side by side have one
    each.
    """

    x: Floats
    y: Floats
    label: str = ""
    write: Writer = format_number
    clock: Column | None = field(default=None, kw_only=True)

    def at(self, place: float) -> tuple[float | None, float | None]:
        """``(x, value)`` of the last entry up to ``place``; the value of a NaN is None."""
        index = int(np.searchsorted(self.x, place, side="right")) - 1
        if index < 0:
            return None, None
        value = float(self.y[index])
        return float(self.x[index]), None if np.isnan(value) else value


@dataclass(frozen=True, eq=False)
class Band:
    """An area around a line from ``low`` to ``high``, drawn while the view asks for its ``kind``.

    ``facts`` is what the legend reads out of it.
    """

    kind: BandKind
    low: Floats
    high: Floats
    facts: tuple[Values, ...] = ()


@dataclass(frozen=True, eq=False)
class Line(Values):
    """Values joined by a line in the color ``ink``, which is one of ``series-1`` to ``series-8``.

    ``source`` is the column that ``x`` and ``y`` come from, when they are one as it is: its
    smoothing then goes on from step to step instead of being worked out anew.
    """

    ink: str = field(default="series-1", kw_only=True)
    bands: tuple[Band, ...] = field(default=(), kw_only=True)
    source: Column | None = field(default=None, kw_only=True)
    raw: Floats | None = field(default=None, kw_only=True)
    """The values before they were smoothed, drawn quietly behind the line."""

    def band(self, kind: BandKind) -> Band | None:
        return next((band for band in self.bands if band.kind == kind), None)


@dataclass(frozen=True, eq=False)
class Marks(Values):
    """Single values that are not part of a line, such as validation scores."""

    ink: str = field(default="mark", kw_only=True)
    glyph: str = field(default="◆", kw_only=True)
    ascii_glyph: str = field(default="o", kw_only=True)


@dataclass(frozen=True, eq=False)
class Fact(Values):
    """A quantity that is read out beside the lines but not drawn. One with a ``tone``, errors and
    failures, is left out while it is 0."""

    tone: str = field(default="", kw_only=True)


@dataclass(frozen=True)
class FlagKind:
    """What happened, and how it stands on the axis."""

    name: str
    ink: str
    glyph: str
    ascii_glyph: str


@dataclass(frozen=True, eq=False)
class Flags:
    """Where one kind of thing happened, in ascending steps. ``texts`` say more about each."""

    kind: FlagKind
    x: Floats
    texts: tuple[str, ...] = ()

    def near(self, low: float, high: float) -> Iterator[str]:
        """In words: those between two places."""
        first, last = np.searchsorted(self.x, [low, high + 1e-9], side="left")
        for index in range(int(first), min(int(last), int(first) + 3)):
            yield self.texts[index] if index < len(self.texts) else self.kind.name


@dataclass(frozen=True, eq=False)
class Plot:
    """What to draw. ``clock`` holds the time of each step, ``y`` a range that does not change.

    Of a ``timed`` plot every x is in unix seconds: samples of the machine. Beside charts of steps
    it shows the elapsed time, and its cursor stands at the same moment.
    """

    lines: tuple[Line, ...] = ()
    marks: tuple[Marks, ...] = ()
    flags: tuple[Flags, ...] = ()
    facts: tuple[Fact, ...] = ()
    clock: Column | None = None
    y: Range | None = None
    timed: bool = False
    are_seconds: bool = False
    """Whether the values are times: the axis then names their unit."""

    @property
    def drawn(self) -> tuple[Values, ...]:
        """Lines and marks: what has a place in the picture."""
        return (*self.lines, *self.marks)

    @property
    def is_empty(self) -> bool:
        """Whether there is no value to draw."""
        return not any(np.isfinite(values.y).any() for values in self.drawn)

    def extent(self) -> Range | None:
        """From the first to the last place that has an entry."""
        ends = [values.x[[0, -1]] for values in self.drawn if values.x.size]
        if not ends:
            return None
        low, high = float(min(end[0] for end in ends)), float(max(end[1] for end in ends))
        return Range(low, high if high > low else low + 1)
