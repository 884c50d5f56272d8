"""Statistics of a series: its levels, its noise, stretches of a condition, drops and falls.

All functions take values in the order of their steps, without NaN.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]


def early_level(values: Floats) -> float:
    """Return the initial level: the median of the first fifth, 2 to 20 values."""
    return float(np.median(values[: min(20, max(2, values.size // 5))]))


def healthy_levels(values: Floats) -> tuple[float, float, float]:
    """Return three estimates of the healthy level, since the early level may be unhealthy already.

    They are the early level, the level of the first three values (their first one if they climb),
    and the lowest level that lasted for five values.
    """
    start = values[:3]
    first = start[0] if np.all(np.diff(start) > 0) else np.median(start)
    windows = np.lib.stride_tricks.sliding_window_view(values, min(5, values.size))
    return early_level(values), float(first), float(np.median(windows, axis=1).min())


def late_level(values: Floats, width: int = 3) -> float:
    """Return the current level: the median of the last ``width`` values."""
    return float(np.median(values[-width:]))


def smooth(values: Floats) -> Floats:
    """Return the running median over three values, which removes single outliers."""
    if values.size < 3:
        return values
    inner = np.median(np.stack([values[:-2], values[1:-1], values[2:]]), axis=0)
    return np.concatenate([inner[:1], inner, inner[-1:]])


def noise(values: Floats) -> float:
    """Return the standard deviation of the jitter; trends and single jumps do not affect it."""
    return 1.4826 * float(np.median(np.abs(np.diff(values)))) / float(np.sqrt(2))


def trend(values: Floats) -> float:
    """Return Kendall's tau of the values over time, of at most 200 of them: 1 for a steady rise."""
    thinned = values[:: max(1, values.size // 200)]
    pairs = np.sign(thinned[None, :] - thinned[:, None])[np.triu_indices(thinned.size, 1)]
    return float(pairs.mean())


def is_rounded(values: Floats) -> bool:
    """Return whether no value has more than three decimals, as in a log that prints no more."""
    return bool(np.all(np.abs(values - np.round(values, 3)) < 1e-9))


def tail_start(mask: Mask, need: int) -> int | None:
    """Return where the True values at the end begin; None if there are fewer than ``need``."""
    if mask.size < need or not mask[-need:].all():
        return None
    misses = np.flatnonzero(~mask)
    return int(misses[-1]) + 1 if misses.size else 0


def longest_stretch(mask: Mask) -> tuple[int, int]:
    """Return start and end (exclusive) of the longest stretch of True; (0, 0) without any."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], mask, [False]]).astype(np.int8)))
    if not edges.size:
        return 0, 0
    starts, ends = edges[::2], edges[1::2]
    best = int(np.argmax(ends - starts))
    return int(starts[best]), int(ends[best])


@dataclass(frozen=True, slots=True)
class Drop:
    """A sudden step down. ``contrast`` is its height in standard deviations of the noise."""

    index: int
    before: float
    after: float
    contrast: float


def find_drop(values: Floats, width: int = 5) -> Drop | None:
    """Return the largest drop between two adjacent windows, if the series never recovers.

    The noise is the median absolute difference of neighbors over sqrt(2), which neither trends nor
    the drop itself affect. For a series that hardly moves, a share of its standard deviation counts
    instead. A random walk has a contrast of at most about 9.
    """
    count = values.size
    if count < width + 3:
        return None
    sums = np.concatenate([[0.0], np.cumsum(values)])
    splits = np.arange(3, count - width + 1)
    starts = np.maximum(splits - width, 0)
    before = (sums[splits] - sums[starts]) / (splits - starts)
    after = (sums[splits + width] - sums[splits]) / width
    best = int(np.argmax(before - after))
    split, high = int(splits[best]), float(before[best])
    low = float(np.median(values[split:]))
    if low >= high or smooth(values[split:]).max() > (high + low) / 2:
        return None
    if float(np.median(values[int(starts[best]) : split])) <= (high + low) / 2:
        return None  # A single high value raised the mean: it is not a level.
    spread = 0.2 * float(values[:split].std())
    jitter = max(noise(values), spread, 1e-6 * max(abs(high), abs(low)))
    return Drop(split, high, low, (high - low) / jitter)


@dataclass(frozen=True, slots=True)
class Fall:
    """The deepest fall from a peak, in block means. ``excess`` is its depth relative to the fall of
    a random walk with the same steps: about 1 is chance."""

    peak: int
    bottom: int
    high: float
    low: float
    excess: float


def find_fall(values: Floats, blocks: int = 24) -> Fall | None:
    """Return the fall from the peak to the current level; None if the series is too short.

    A Brownian motion of T unit steps falls by 1.25 sqrt(T) on average (Magdon-Ismail et al., "On
    the maximum drawdown of a Brownian motion", 2004), and hardly ever by 3 sqrt(T). The step size
    is the median of the absolute differences, which the fall itself hardly affects, or half their
    mean if that is larger, as for a series that is constant between two spikes.
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
    """Return the fall of a series of few distinct values, such as single right or wrong answers.

    Such a series is as noisy as coin tosses, so only block means are compared: ``excess`` is the
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
    above_middle = values[start + width * peak :] - (high + low) / 2
    bottom = start + width * peak + int(np.argmax(np.cumsum(above_middle))) + 1
    bottom = min(bottom, values.size - 1)
    return Fall(start + width * peak, bottom, high, low, (high - low) / (4 * error))
