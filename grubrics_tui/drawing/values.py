"""What a chart is made of: lines, bands, single marks, flags on the axis, numbers beside it.

Everything stands along ascending steps, as ``engine.history.columns`` holds it; a chart that shows
time instead turns steps into time when it draws.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from engine.history.columns import Column, Floats
from grubrics_tui.drawing.scale import Range
from grubrics_tui.drawing.view import BandKind

Writer = Callable[[float | None], str]


def short(value: float | None) -> str:
    """Four digits, a dash for a missing value."""
    return "–" if value is None else f"{value:.4g}"


@dataclass(frozen=True, eq=False)
class Values:
    """A named quantity along ascending ``x``; a NaN is a gap. ``write`` puts a value in words.

    ``clock`` holds the time of each step, where it is not the plot's: runs side by side have one
    each.
    """

    x: Floats
    y: Floats
    label: str = ""
    write: Writer = short
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
    """Values joined by a line in the colour ``ink``, which is one of ``series-1`` to ``series-8``.

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
    """A quantity that is read out beside the lines but not drawn. ``quiet_at_zero`` ones are left
    out while they are 0: errors and failures."""

    tone: str = field(default="foreground", kw_only=True)
    quiet_at_zero: bool = field(default=False, kw_only=True)


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
