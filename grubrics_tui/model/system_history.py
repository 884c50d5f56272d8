"""The system samples of a run as values over time."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from engine.base.jsonl import moment, number
from engine.run.history.columns import Floats

Sample = dict[str, Any]

_MOST = 4000


class SystemHistory:
    """The last sample, and for the last samples how busy and full the machine was."""

    def __init__(self) -> None:
        self.last: Sample | None = None
        self.seen = 0
        """Number of samples so far, including those that were dropped."""
        self._points: deque[tuple[float, float, float]] = deque(maxlen=_MOST)

    def add(self, samples: Sequence[Sample]) -> None:
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


def gpus_of(sample: Sample) -> list[Sample]:
    """The GPUs of a sample; entries that are not objects are ignored."""
    gpus = sample.get("gpus")
    return [gpu for gpu in gpus if isinstance(gpu, dict)] if isinstance(gpus, list) else []


def ratio(value: float | None, total: float | None) -> float | None:
    return None if value is None or not total else number(value / total)


def _point(sample: Sample) -> tuple[float, float, float]:
    """Time, busy and full of the GPUs if there are any, else of the host."""
    gpus = gpus_of(sample)
    if gpus:
        busy = _mean(ratio(number(gpu.get("util")), 100) for gpu in gpus)
        full = _mean(ratio(number(g.get("mem_used")), number(g.get("mem_total"))) for g in gpus)
    else:
        busy = ratio(number(sample.get("cpu_percent")), 100)
        full = ratio(number(sample.get("mem_used")), number(sample.get("mem_total")))
    return moment(sample.get("t")) or 0.0, _percent(busy), _percent(full)


def _mean(shares: Iterable[float | None]) -> float | None:
    measured = [share for share in shares if share is not None]
    return sum(measured) / len(measured) if measured else None


def _percent(share: float | None) -> float:
    return math.nan if share is None else share * 100
