"""A run's metrics as growing columns of numbers: what charts of a million points are drawn from."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from engine.watch.batch import Batch
from engine.watch.train_log import Step

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

    def drop(self, step: float) -> None:
        """Forget a step; nothing happens when it has no value."""
        place = int(np.searchsorted(self.steps, step))
        if place < self._size and self._steps[place] == step:
            self.rewrites += 1
            self._steps[place : self._size - 1] = self._steps[place + 1 : self._size]
            self._values[place : self._size - 1] = self._values[place + 1 : self._size]
            self._size -= 1

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


class Columns:
    """Every metric of a run. ``version`` grows with each change, so that a reader can tell."""

    def __init__(self) -> None:
        self._columns: dict[str, Column] = {}
        self._times = Column()
        self._attempts = Column()
        self.version = 0

    @property
    def names(self) -> list[str]:
        return sorted(self._columns)

    @property
    def times(self) -> Column:
        """Unix seconds at which each step was logged."""
        return self._times

    def add(self, line: Step) -> None:
        """Take over a line of the history, as ``train_log.history`` does.

        A step that a later attempt did again replaces what was said before, as a whole.
        """
        self.version += 1
        step = line.step
        if self._attempts.at(np.array([float(step)]), line.attempt)[0] != line.attempt:
            for column in self._columns.values():
                column.drop(step)
        self._attempts.set(step, line.attempt)
        self._times.set(step, line.time)
        for name, value in line.metrics.items():
            if name not in self._columns:
                self._columns[name] = Column()
            self._columns[name].set(step, np.nan if value is None else value)

    def merge(self, batch: Batch) -> None:
        """Take over many lines at once, as ``add`` would one after the other."""
        bounds = np.flatnonzero((np.diff(batch.steps) < 0) | (np.diff(batch.attempts) != 0))
        edges = [0, *(bounds + 1).tolist(), len(batch)]
        for start, end in pairwise(edges):
            new = start + self._known(batch, start, end)
            for row in range(start, new):
                self.add(batch.step(row))
            self._extend(batch, new, end)

    def _known(self, batch: Batch, start: int, end: int) -> int:
        """How many of the rows redo, or may redo, steps that are there already."""
        if not len(self._times):
            return 0
        last = self._times.steps[-1]
        return int(np.searchsorted(batch.steps[start:end], last, side="right"))

    def _extend(self, batch: Batch, start: int, end: int) -> None:
        """Rows of one attempt whose steps do not go back and are all new."""
        if start == end:
            return
        self.version += 1
        steps = batch.steps[start:end]
        self._attempts.extend(steps, batch.attempts[start:end])
        self._times.extend(steps, batch.times[start:end])
        for name, (rows, values) in batch.columns.items():
            first, last = np.searchsorted(rows, [start, end])
            if last > first:
                column = self._columns.setdefault(name, Column())
                column.extend(batch.steps[rows[first:last]], values[first:last])

    def get(self, name: str) -> Column:
        """The metric's column; an empty one when no step has it."""
        return self._columns.get(name) or Column()
