"""What a chart shows, in cells of a terminal or in an SVG file: lines, bands, marks and flags.

Everything is along ascending steps, as in ``columns``; a chart of time turns steps into times when
it draws.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from engine.base.quantities import format_fixed, format_number
from engine.base.ticks import Range
from engine.run.history.columns import Column, Floats
from engine.run.history.sweep import Sweep

BandKind = Literal["spread", "extremes", "none"]
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

    @property
    def gaps(self) -> Floats:
        """Where there is no value."""
        return self.x[np.isnan(self.y)]


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

    ``key`` is a letter that names the line where its label has no room. ``source`` is the column
    that begins with ``x`` and ``y``, if there is one: its smoothing then goes on from step to step
    instead of being worked out anew.
    """

    ink: str = field(default="series-1", kw_only=True)
    key: str = field(default="", kw_only=True)
    bands: tuple[Band, ...] = field(default=(), kw_only=True)
    source: Column | None = field(default=None, kw_only=True)
    raw: Floats | None = field(default=None, kw_only=True)
    """The values before they were smoothed, drawn quietly behind the line."""

    def band(self, kind: BandKind) -> Band | None:
        return next((band for band in self.bands if band.kind == kind), None)


@dataclass(frozen=True, eq=False)
class Marks(Values):
    """Single values that are not part of a line, such as validation scores."""


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


def sweep_line(sweep: Sweep, label: str, ink: str, *, key: str = "") -> Line:
    """The mean of each checkpoint in a band of its 95% interval."""
    steps = np.array([float(point.step) for point in sweep.points])
    means = np.array([point.mean for point in sweep.points])
    # A point without an interval is its own band.
    low = np.array([p.mean if p.low is None else p.low for p in sweep.points])
    high = np.array([p.mean if p.high is None else p.high for p in sweep.points])
    facts = (Values(steps, low, "from", format_fixed), Values(steps, high, "to", format_fixed))
    bands = (Band("spread", low, high, facts),)
    return Line(steps, means, label, format_fixed, ink=ink, key=key, bands=bands)


def logarithmic(plot: Plot) -> Plot:
    """The same with the logarithms of all values; what has none is a gap."""
    return replace(
        plot,
        lines=tuple(
            replace(
                line,
                y=_log(line.y),
                raw=None if line.raw is None else _log(line.raw),
                bands=tuple(replace(b, low=_log(b.low), high=_log(b.high)) for b in line.bands),
            )
            for line in plot.lines
        ),
        marks=tuple(replace(marks, y=_log(marks.y)) for marks in plot.marks),
    )


def _log(values: Floats) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(values > 0, np.log10(values), np.nan)


def extremes(drawn: Iterable[Floats]) -> list[float]:
    """The lowest and the highest value of each of the arrays that has one."""
    with np.errstate(invalid="ignore"):
        ends = [end.reduce(y, initial=np.nan) for y in drawn for end in (np.fmin, np.fmax)]
    return [float(end) for end in ends if not np.isnan(end)]
