"""Several trainings in one log: one model or task after the other, or a run that began anew.

Their levels have nothing to do with each other, so that only the last of them is looked at.
"""

from __future__ import annotations

import numpy as np

from engine.history.columns import Columns

_EPOCHS = ("epoch", "train/epoch", "training/epoch")
_ENDS = ("train_runtime", "train/train_runtime")
_FALL = 0.5
"""What goes on from a checkpoint falls back by less."""


def last_beginning(columns: Columns) -> float:
    """The step with which the last training begins; minus infinity where there is but one.

    A training begins where the epoch falls back, or after the summary of the one before.
    """
    return max(_falls(columns), _after_summary(columns))


def _falls(columns: Columns) -> float:
    for name in _EPOCHS:
        epoch = columns.get(name)
        known = ~np.isnan(epoch.values)
        steps, values = epoch.steps[known], epoch.values[known]
        falls = np.flatnonzero(values[1:] < _FALL * values[:-1])
        if falls.size:
            return float(steps[falls[-1] + 1])
    return float("-inf")


def _after_summary(columns: Columns) -> float:
    steps = columns.times.steps
    for name in _ENDS:
        next_ones = np.searchsorted(steps, columns.get(name).steps, side="right")
        followed = next_ones[next_ones < len(steps)]
        if followed.size:
            return float(steps[followed[-1]])
    return float("-inf")
