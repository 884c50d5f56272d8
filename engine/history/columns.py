"""A run's metrics as growing columns of numbers: what charts of a million points are drawn from."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from itertools import pairwise

import numpy as np

from engine.history.batch import Batch
from engine.history.clock import Clock
from engine.history.column import Column, Floats
from engine.history.train_log import Step

__all__ = ["Column", "Columns", "Floats"]

_MOST_STEPS = 65_536
"""Of 90 metrics these are 90 MiB."""


class Columns:
    """Every metric of a run. ``version`` grows with each change, so that a reader can tell."""

    def __init__(self) -> None:
        self._columns: dict[str, Column] = {}
        self._times = Clock()
        self._attempts = Column()
        self.version = 0
        self._forgotten = 0

    @property
    def names(self) -> list[str]:
        return sorted(self._columns)

    @property
    def times(self) -> Clock:
        """Unix seconds at which each step was logged."""
        return self._times

    @property
    def rewrites(self) -> int:
        """Grows when a value changes that was there before, in whichever column."""
        columns = (self._times, *self._columns.values())
        return self._forgotten + sum(column.rewrites for column in columns)

    def forget(self) -> None:
        """Begin anew, as when the history was cut or replaced; ``version`` goes on growing."""
        self.version += 1
        self._forgotten += sum(column.rewrites for column in self._columns.values())
        self._columns, self._attempts = {}, Column()
        self._times.clear()

    def frozen(self) -> Columns:
        """The columns as they are now, for another thread."""
        frozen = copy(self)
        frozen._columns = {name: copy(column) for name, column in self._columns.items()}
        frozen._times, frozen._attempts = copy(self._times), copy(self._attempts)
        return frozen

    def renamed(self, names: Mapping[str, str]) -> Columns:
        """The columns as they are now, some of them by other names: ``{old: new}``."""
        frozen = self.frozen()
        for old, new in names.items():
            frozen._columns[new] = frozen._columns.pop(old)
        return frozen

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

    def thin(self, most: int = _MOST_STEPS) -> None:
        """Bound the memory of a history without end: while it has more than ``most`` steps every
        second one of its older half is left out. What came lately stays whole."""
        while (size := len(self._times)) > most:
            self.version += 1
            out = self._times.steps[1 : size // 2 : 2].copy()
            for column in (self._times, self._attempts, *self._columns.values()):
                column.leave_out(out)

    def get(self, name: str) -> Column:
        """The metric's column; an empty one when no step has it."""
        return self._columns.get(name) or Column()
