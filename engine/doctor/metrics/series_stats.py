"""Shapes of a series: what it was like at first, since when it is otherwise, where it jumped.

Every function takes values in the order of their steps and no NaN unless it says so.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]


def early_level(values: Floats) -> float:
    """What the series was like at first: the median of its first fifth, 2 to 20 values."""
    return float(np.median(values[: min(20, max(2, values.size // 5))]))


def healthy_levels(values: Floats) -> tuple[float, float, float]:
    """What a series was like while it was well, in case its early level is already that of a
    sickness: its early level, that of its first three values (the first one's where they climb),
    and the lowest that it kept for five values."""
    start = values[:3]
    first = start[0] if np.all(np.diff(start) > 0) else np.median(start)
    windows = np.lib.stride_tricks.sliding_window_view(values, min(5, values.size))
    return early_level(values), float(first), float(np.median(windows, axis=1).min())


def late_level(values: Floats, width: int = 3) -> float:
    """What it is like now: the median of its last ``width`` values."""
    return float(np.median(values[-width:]))


def smooth(values: Floats) -> Floats:
    """The median of each value and its two neighbours: a lone outlier leaves no trace."""
    if values.size < 3:
        return values
    inner = np.median(np.stack([values[:-2], values[1:-1], values[2:]]), axis=0)
    return np.concatenate([inner[:1], inner, inner[-1:]])


def noise(values: Floats) -> float:
    """The size of the jitter of neighbours, which neither trends nor single jumps move."""
    return 1.4826 * float(np.median(np.abs(np.diff(values)))) / float(np.sqrt(2))


def is_rounded(values: Floats) -> bool:
    """Whether no value has more than three decimals, as in a log that prints no more."""
    return bool(np.all(np.abs(values - np.round(values, 3)) < 1e-9))


def tail_start(mask: Mask, need: int) -> int | None:
    """Where the run of True begins that reaches the end, when it is ``need`` long; else None."""
    if mask.size < need or not mask[-need:].all():
        return None
    misses = np.flatnonzero(~mask)
    return int(misses[-1]) + 1 if misses.size else 0


def longest_stretch(mask: Mask) -> tuple[int, int]:
    """The first and the last place plus one of the longest run of True; (0, 0) without any."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], mask, [False]]).astype(np.int8)))
    if not edges.size:
        return 0, 0
    starts, ends = edges[::2], edges[1::2]
    best = int(np.argmax(ends - starts))
    return int(starts[best]), int(ends[best])


@dataclass(frozen=True, slots=True)
class Drop:
    """A sudden step down. ``contrast`` is its height in standard deviations of the noise."""

    place: int
    before: float
    after: float
    contrast: float


def find_drop(values: Floats, width: int = 5) -> Drop | None:
    """The steepest way down between two neighbouring windows, when the series never comes back.

    The noise is the median absolute difference of neighbours, over sqrt(2): neither trends nor the
    drop itself move it. A series that hardly ever moves is measured by its spread as well. For a
    random walk a contrast of 9 is the most to expect. None where nothing lasts.
    """
    count = values.size
    if count < width + 3:
        return None
    sums = np.concatenate([[0.0], np.cumsum(values)])
    places = np.arange(3, count - width + 1)
    starts = np.maximum(places - width, 0)
    before = (sums[places] - sums[starts]) / (places - starts)
    after = (sums[places + width] - sums[places]) / width
    best = int(np.argmax(before - after))
    place, high = int(places[best]), float(before[best])
    low = float(np.median(values[place:]))
    if low >= high or smooth(values[place:]).max() > (high + low) / 2:
        return None
    if float(np.median(values[int(starts[best]) : place])) <= (high + low) / 2:
        return None  # One value is no level.
    spread = 0.2 * float(values[:place].std())
    jitter = max(noise(values), spread, 1e-6 * max(abs(high), abs(low)))
    return Drop(place, high, low, (high - low) / jitter)


@dataclass(frozen=True, slots=True)
class Fall:
    """The deepest way down from a peak, in block means. ``excess`` is its depth over what a
    random walk with the same steps falls: about 1 is chance."""

    peak: int
    bottom: int
    high: float
    low: float
    excess: float


def find_fall(values: Floats, blocks: int = 24) -> Fall | None:
    """The deepest fall to the level at which the series now lies; None where it is too short.

    A Brownian walk of unit steps over T steps falls by 1.25 sqrt(T) on average (Magdon-Ismail et
    al., "On the maximum drawdown of a Brownian motion", 2004), and hardly ever by 3 sqrt(T). The
    size of a step is the median of the absolute differences, which the fall itself hardly moves;
    half their mean where most are nothing, as in a series that stands still between two spikes.
    """
    width = max(1, values.size // blocks)
    count = values.size // width
    if count < 12:
        return None
    start = values.size - count * width
    means = values[start:].reshape(count, width).mean(axis=1)
    peak = int(np.argmax(means))
    low = float(means[-2:].mean())
    moves = np.abs(np.diff(means))
    walk = max(1.4826 * float(np.median(moves)), 0.5 * float(moves.mean())) * np.sqrt(count)
    high = float(means[peak])
    below = np.flatnonzero(means[peak:] <= (high + low) / 2)
    bottom = start + width * (peak + (int(below[0]) if below.size else 0))
    excess = (high - low) / max(1.25 * walk, 1e-9 * max(abs(high), abs(low), 1e-300))
    return Fall(start + width * peak, bottom, high, low, float(excess))


def find_decline(values: Floats, blocks: int = 12) -> Fall | None:
    """The fall of a series of few distinct values, such as single right or wrong answers.

    Its noise is that of a coin, so neighbours say little and block means much: ``excess`` is the
    depth over 4 standard errors of a difference of block means. None for other series.
    """
    width = values.size // blocks
    if width < 5 or np.unique(values).size > 10 or not np.ptp(values):
        return None
    start = values.size - blocks * width
    means = values[start:].reshape(blocks, width).mean(axis=1)
    peak, low = int(np.argmax(means)), float(means[-2:].mean())
    high = float(means[peak])
    error = float(values.std()) * float(np.sqrt(1.5 / width))
    after = values[start + width * peak :] - (high + low) / 2
    bottom = start + width * peak + int(np.argmax(np.cumsum(after))) + 1
    bottom = min(bottom, values.size - 1)
    return Fall(start + width * peak, bottom, high, low, (high - low) / (4 * error))
