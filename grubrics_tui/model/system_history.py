"""The system samples of a run as values over time."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Sequence

import numpy as np

from engine.base.jsonl import number
from engine.run.history.columns import Floats
from engine.run.system_sample import SystemSample

_MOST = 4000


class SystemHistory:
    """The last sample, and for the last samples how busy and full the machine was."""

    def __init__(self) -> None:
        self.last: SystemSample | None = None
        self.seen = 0
        """Number of samples so far, including those that were dropped."""
        self._points: deque[tuple[float, float, float]] = deque(maxlen=_MOST)

    def add(self, samples: Sequence[SystemSample]) -> None:
        if samples:
            self.last = samples[-1]
            self.seen += len(samples)
            self._points.extend(_point(sample) for sample in samples[-_MOST:])

    def series(self) -> tuple[Floats, Floats, Floats]:
        """Unix seconds, busy and full in percent; NaN where it was not measured.

        If the clock was set back, time pauses until it catches up.
        """
        table = np.array(self._points, float).reshape(-1, 3)
        return np.maximum.accumulate(table[:, 0]), table[:, 1], table[:, 2]


def ratio(value: float | None, total: float | None) -> float | None:
    return None if value is None or not total else number(value / total)


def _point(sample: SystemSample) -> tuple[float, float, float]:
    """Time, busy and full of the GPUs if there are any, else of the host."""
    if sample.gpus:
        busy = _mean(ratio(gpu.util, 100) for gpu in sample.gpus)
        full = _mean(ratio(gpu.mem_used, gpu.mem_total) for gpu in sample.gpus)
    else:
        busy = ratio(sample.cpu_percent, 100)
        full = ratio(sample.mem_used, sample.mem_total)
    return sample.t or 0.0, _percent(busy), _percent(full)


def _mean(shares: Iterable[float | None]) -> float | None:
    measured = [share for share in shares if share is not None]
    return sum(measured) / len(measured) if measured else None


def _percent(share: float | None) -> float:
    return math.nan if share is None else share * 100
