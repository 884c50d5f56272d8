"""Smoothed lines: an exponential moving average, free of the bias of its start."""

from __future__ import annotations

import numpy as np

from engine.history.columns import Column, Floats

_NEGLIGIBLE = 1e-17


def ema(values: Floats, weight: float, total: float = 0.0, count: int = 0) -> Floats:
    """``s_n = w s_(n-1) + (1-w) y_n`` with ``s_0 = 0``, divided by ``1 - w^n``.

    That is how TensorBoard smooths (``vz_line_chart2``, ``resmoothDataset``), and W&B's
    "exponential moving average". A NaN stays one and is not counted. ``total`` and ``count`` go on
    from earlier values: the average before its division, and how many there were.
    """
    known = ~np.isnan(values)
    run = values[known] * (1 - weight)
    _accumulate(run, weight)
    number = np.arange(1, run.size + 1)
    run += total * weight**number
    smoothed = np.full(values.size, np.nan)
    smoothed[known] = run / (1 - weight ** (number + count))
    return smoothed


def _accumulate(values: Floats, weight: float) -> None:
    """Turn ``y_n`` into ``sum w^(n-k) y_k``: every pass doubles how far back the sums reach."""
    shift = 1
    while shift < values.size and weight**shift > _NEGLIGIBLE:
        values[shift:] += weight**shift * values[:-shift]
        shift *= 2


class Smoothed:
    """A column's average that grows with it: a new value costs one step, however many there are.

    A value that was rewritten, as a resumed run does, starts it anew.
    """

    def __init__(self, column: Column, weight: float) -> None:
        self._column, self._weight = column, weight
        self._restart()

    def values(self) -> Floats:
        """The average at each of the column's steps."""
        if self._rewrites != self._column.rewrites:
            self._restart()
        if self._size < len(self._column):
            self._extend(self._column.values[self._size :])
        return self._values[: self._size]

    def _restart(self) -> None:
        self._rewrites = self._column.rewrites
        self._values = np.empty(0)
        self._size = self._count = 0
        self._total = 0.0

    def _extend(self, fresh: Floats) -> None:
        smoothed = ema(fresh, self._weight, self._total, self._count)
        end = self._size + fresh.size
        if end > self._values.size:
            self._values = np.concatenate([self._values[: self._size], np.empty(max(end, 256))])
        self._values[self._size : end] = smoothed
        self._size = end
        known = smoothed[~np.isnan(smoothed)]
        self._count += known.size
        if known.size:
            self._total = float(known[-1]) * (1 - self._weight**self._count)
