"""When each step was logged, and how long the run had trained by then."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from engine.base import jsonl
from engine.history.column import Column, Floats


class Clock(Column):
    """Unix seconds by step. Elapsed time counts while an attempt runs, not the pauses between.

    It begins with the first attempt's start; of a log that names none, with its first step.
    """

    def __init__(self) -> None:
        super().__init__()
        self._starts: list[float] = []
        self._ends: list[float] = []

    def note(self, event: Mapping[str, Any]) -> None:
        """Take over the start or the end of an attempt from ``run_log.jsonl``."""
        moment, kind = jsonl.moment(event.get("t")), event.get("event")
        if moment is not None and kind in ("start", "end"):
            (self._starts if kind == "start" else self._ends).append(moment)

    @property
    def begins(self) -> float | None:
        """When elapsed time is 0; None while nothing is known."""
        first = self.values[:1].tolist() if self.says_anything else []
        return next(iter([*self._starts, *first]), None)

    @property
    def says_anything(self) -> bool:
        """Whether steps were timed: some logs carry no times."""
        return len(self) > 0 and bool(self.values[-1] > 0)

    def elapsed(self, moments: Floats) -> Floats:
        """Seconds of training up to ``moments``, which are Unix seconds."""
        if len(self._starts) < 2:
            return moments - (self.begins or 0.0)
        edges, trained = self._edges()
        seconds: Floats = np.interp(moments, edges, trained)
        seconds += np.maximum(0.0, moments - edges[-1])
        return seconds

    def _edges(self) -> tuple[Floats, Floats]:
        """Starts and ends of the attempts up to the last start, with the seconds trained by then.

        An attempt whose end nobody saw ends with its last step.
        """
        edges, trained, done = [], [], 0.0
        for start, limit in zip(self._starts, self._starts[1:], strict=False):
            end = max(start, self._last_between(start, limit))
            edges += [start, end]
            trained += [done, done := done + end - start]
        return np.array([*edges, self._starts[-1]]), np.array([*trained, done])

    def _last_between(self, start: float, limit: float) -> float:
        ends = [end for end in self._ends if start <= end <= limit]
        if ends:
            return ends[-1]
        steps = self.values[(self.values >= start) & (self.values <= limit)]
        return float(steps.max()) if steps.size else start
