"""The seconds of each step by measured phase, and the rest."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from engine.run.history import metrics
from engine.run.history.columns import Floats
from grubrics_tui.drawing.stacked import Part, Stacks
from grubrics_tui.model.history import History

Sizes = NDArray[np.float64]

_PARTS: Mapping[Part, tuple[str, ...]] = {
    Part("gen", "phase-1", "g"): ("timing_s/gen",),
    Part("reward", "phase-2", "r"): ("timing_s/reward",),
    Part("old log prob", "phase-3", "o"): ("timing_s/old_log_prob",),
    Part("ref", "phase-4", "f"): ("timing_s/ref",),
    Part("update", "phase-6", "u"): ("timing_s/update_actor", "timing_s/update_critic"),
    Part("weights", "phase-7", "w"): ("timing_s/update_weights",),
    Part("save", "phase-5", "s"): ("timing_s/save_checkpoint",),
}
OTHER = Part("other", "phase-8", ".")
PARTS = (*_PARTS, OTHER)
WHOLE = (Part("step", "phase-1", "s"),)


class StepPhases:
    """The phases of every step, or its total if phases were not measured.

    Results are cached: a new step adds one row.
    """

    def __init__(self) -> None:
        self._based_on: object = None
        self._x: Floats = np.empty(0)
        self._sizes: Sizes = np.empty((0, len(PARTS)))
        self._count = 0
        self._seen = 0
        """Steps read so far; the last one is read again, as some of its values may come later."""
        self._has_phases = False

    def of(self, history: History) -> Stacks:
        steps, seconds = history.step_times()
        based_on = (history.columns.rewrites, len(history.series(metrics.STEP_TIME)) > 0)
        if based_on != self._based_on:
            self._based_on, self._seen, self._has_phases = based_on, 0, False
        done = max(0, self._seen - 1)
        self._add(done, *split(history, steps[done:], seconds[done:]))
        self._seen = steps.size
        x, sizes = self._x[: self._count], self._sizes[: self._count]
        if not self._has_phases:
            return Stacks(WHOLE, x, sizes.sum(axis=1, keepdims=True))
        return Stacks(PARTS, x, sizes)

    def _add(self, done: int, x: Floats, sizes: Sizes) -> None:
        """Put rows behind those of the first ``known`` steps."""
        if not done:
            self._count = 0
        elif self._count and x.size and x[0] <= self._x[self._count - 1]:
            self._count -= 1
        end = self._count + x.size
        if end > self._x.size:
            room = end // 8 + 64
            self._x = np.concatenate([self._x[: self._count], np.empty(x.size + room)])
            new_rows = np.empty((x.size + room, len(PARTS)))
            self._sizes = np.concatenate([self._sizes[: self._count], new_rows])
        self._x[self._count : end], self._sizes[self._count : end] = x, sizes
        self._count = end
        self._has_phases = self._has_phases or bool(sizes[:, :-1].any())


def split(history: History, steps: Floats, seconds: Floats) -> tuple[Floats, Sizes]:
    """Steps with a known duration, and ``sizes[i, j]``: the seconds of part ``j`` of ``PARTS``.

    The last part is the time outside the measured phases: advantages, logging, waiting.
    """
    timed = ~np.isnan(seconds)
    steps, seconds = steps[timed], seconds[timed]
    phases = [
        np.sum([np.nan_to_num(history.series(name).at(steps)) for name in names], axis=0)
        for names in _PARTS.values()
    ]
    other = np.maximum(0.0, seconds - np.sum(phases, axis=0))
    return steps, np.column_stack([*phases, other])
