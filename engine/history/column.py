"""One metric as a growing column of numbers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_FIRST_SIZE = 64


class Column:
    """Values by ascending step, NaN where the run logged null. Appending is cheap; so is reading.

    A step that comes again, after a resume, replaces its earlier value.
    """

    def __init__(self) -> None:
        self._steps = np.empty(_FIRST_SIZE)
        self._values = np.empty(_FIRST_SIZE)
        self._size = 0
        self.rewrites = 0
        """Grows when a value changes that was there before: what was derived from it is stale."""

    def __len__(self) -> int:
        return self._size

    @property
    def steps(self) -> Floats:
        return self._steps[: self._size]

    @property
    def values(self) -> Floats:
        return self._values[: self._size]

    def last(self) -> tuple[int | None, float | None]:
        """``(step, value)`` of the newest entry; None for a NaN and where there is none."""
        if not self._size:
            return None, None
        value = float(self._values[self._size - 1])
        return int(self._steps[self._size - 1]), None if np.isnan(value) else value

    def set(self, step: float, value: float) -> None:
        """Note the value of a step; steps mostly come in order."""
        if self._size and step <= self._steps[self._size - 1]:
            self._amend(step, value)
            return
        if self._size == self._steps.size:
            room = np.empty(self._size // 8 + _FIRST_SIZE)
            self._steps = np.concatenate([self._steps, room])
            self._values = np.concatenate([self._values, room])
        self._steps[self._size], self._values[self._size] = step, value
        self._size += 1

    def extend(self, steps: Floats, values: Floats) -> None:
        """Note many values, whose steps never go back."""
        if not steps.size:
            return
        later = not self._size or steps[0] > self._steps[self._size - 1]
        if not later or not np.all(steps[1:] > steps[:-1]):
            for step, value in zip(steps.tolist(), values.tolist(), strict=True):
                self.set(step, value)
            return
        size = self._size + steps.size
        if size > self._steps.size:
            room = np.empty(size // 8 + _FIRST_SIZE)
            self._steps = np.concatenate([self.steps, steps, room])
            self._values = np.concatenate([self.values, values, room])
        else:
            self._steps[self._size : size], self._values[self._size : size] = steps, values
        self._size = size

    def clear(self) -> None:
        """Forget every step; what somebody holds of them stays as it was."""
        self.rewrites += 1
        self._steps, self._values, self._size = np.empty(_FIRST_SIZE), np.empty(_FIRST_SIZE), 0

    def drop(self, step: float) -> None:
        """Forget a step; nothing happens when it has no value."""
        place = int(np.searchsorted(self.steps, step))
        if place < self._size and self._steps[place] == step:
            self.rewrites += 1
            self._steps[place : self._size - 1] = self._steps[place + 1 : self._size]
            self._values[place : self._size - 1] = self._values[place + 1 : self._size]
            self._size -= 1

    def leave_out(self, steps: Floats) -> None:
        """Forget these steps; what somebody holds of them stays as it was."""
        keep = ~np.isin(self.steps, steps)
        if not keep.all():
            self.rewrites += 1
            self._steps, self._values = self.steps[keep], self.values[keep]
            self._size = self._steps.size

    def at(self, steps: Floats, missing: float = 0.0) -> Floats:
        """The values of exactly these steps, ``missing`` where a step has none."""
        if not self._size:
            return np.full(steps.size, missing)
        if np.array_equal(steps, self.steps):
            return self.values
        places = np.clip(np.searchsorted(self.steps, steps), 0, self._size - 1)
        return np.where(self.steps[places] == steps, self.values[places], missing)

    def _amend(self, step: float, value: float) -> None:
        self.rewrites += 1
        place = int(np.searchsorted(self.steps, step))
        if self._steps[place] != step:
            self._steps = np.insert(self.steps, place, step)
            self._values = np.insert(self.values, place, value)
            self._size += 1
        else:
            self._values[place] = value
