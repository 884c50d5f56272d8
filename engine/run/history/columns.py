"""A run's metrics as growing columns of numbers: what charts of a million points are drawn from."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from itertools import chain, islice, pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from engine.base import files, jsonl
from engine.base.holes import numbered_lines
from engine.base.typed import decode_record
from engine.run.events import Event
from engine.run.history.train_log import Step, StepLine, numbers

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Table = dict[str, tuple[Ints, Floats]]

LARGEST = 1e100  # as in ``jsonl.number``
_FIRST_SIZE = 64


class Column:
    """Values by ascending step, NaN where the run logged null. Appending is cheap; so is reading.

    A step that is repeated, after a resume, replaces its earlier value; of several records of one
    step, a NaN does not replace the number of another.
    """

    def __init__(self) -> None:
        self._steps = np.empty(_FIRST_SIZE)
        self._values = np.empty(_FIRST_SIZE)
        self._size = 0
        self.rewrites = 0
        """Grows when an earlier value changes: what was derived from it is stale."""

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
        """Note many values whose steps never decrease."""
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
        """Drop every step. Arrays that were handed out stay as they were."""
        self.rewrites += 1
        self._steps, self._values, self._size = np.empty(_FIRST_SIZE), np.empty(_FIRST_SIZE), 0

    def drop(self, step: float) -> None:
        """Drop a step, if it has a value."""
        index = int(np.searchsorted(self.steps, step))
        if index < self._size and self._steps[index] == step:
            self.rewrites += 1
            self._steps[index : self._size - 1] = self._steps[index + 1 : self._size]
            self._values[index : self._size - 1] = self._values[index + 1 : self._size]
            self._size -= 1

    def leave_out(self, steps: Floats) -> None:
        """Drop these steps. Arrays that were handed out stay as they were."""
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
        indices = np.clip(np.searchsorted(self.steps, steps), 0, self._size - 1)
        return np.where(self.steps[indices] == steps, self.values[indices], missing)

    def _amend(self, step: float, value: float) -> None:
        """Note the value of a step that is not after the last one."""
        self.rewrites += 1
        index = int(np.searchsorted(self.steps, step))
        if self._steps[index] != step:
            self._steps = np.insert(self.steps, index, step)
            self._values = np.insert(self.values, index, value)
            self._size += 1
        elif not np.isnan(value):
            self._values[index] = value


class Clock(Column):
    """Unix seconds by step. Elapsed time counts while an attempt runs, not the pauses between.

    It begins with the start of the first attempt, or with the first step of a log without one.
    """

    def __init__(self) -> None:
        super().__init__()
        self._starts: list[float] = []
        self._ends: list[float] = []

    def note(self, event: Event) -> None:
        """Take over the start or the end of an attempt from an event of the run."""
        if event.t is not None and event.name in ("start", "end"):
            (self._starts if event.name == "start" else self._ends).append(event.t)

    @property
    def begins(self) -> float | None:
        """When elapsed time is 0; None while it is unknown."""
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

    def attempts(self, until: float = 0.0) -> list[tuple[float, float]]:
        """Start and end of each attempt. An end that nobody recorded is the attempt's last step; of
        the last attempt it is ``until``, or its start if that is later."""
        if not self._starts:
            return []
        spans = []
        for start, limit in pairwise([*self._starts, max(until, self._starts[-1])]):
            ends = [end for end in self._ends if start <= end <= limit]
            if not ends and limit in self._starts:
                ends = self.values[(self.values >= start) & (self.values <= limit)].tolist()
                ends = [max(ends, default=start)]
            spans.append((start, ends[-1] if ends else limit))
        return spans

    def _edges(self) -> tuple[Floats, Floats]:
        """Starts and ends of attempts up to the last start, and the seconds trained by each."""
        edges, trained, done = [], [], 0.0
        for start, end in self.attempts()[:-1]:
            edges += [start, max(start, end)]
            trained += [done, done := done + max(start, end) - start]
        return np.array([*edges, self._starts[-1]]), np.array([*trained, done])


_NUMBERS = frozenset({float, int, type(None)})


@dataclass(frozen=True, eq=False)
class Batch:
    """The steps of some lines, in the order they were written.

    ``columns`` holds, for every metric, the ascending rows that have it and its values; NaN is a
    null. The numbers are those that ``Step.parse`` gives for each line.
    """

    steps: Floats
    attempts: Floats
    times: Floats
    columns: Table

    def __len__(self) -> int:
        return self.steps.size

    @classmethod
    def from_lines(cls, lines: Iterable[bytes] = ()) -> Batch:
        """The steps of ``train_log.jsonl`` lines. Other lines are left out."""
        parsed = (decode_record(line, StepLine) for line in lines)
        records = [record for record in parsed if record is not None]
        heads = [(record.step, record.attempt, record.t or 0.0) for record in records]
        steps, attempts, times = np.array(heads, float).reshape(-1, 3).T
        return cls(steps, attempts, times, _table([record.metrics for record in records]))

    @classmethod
    def from_steps(cls, steps: Sequence[Step]) -> Batch:
        heads = [(step.step, step.attempt, step.time) for step in steps]
        numbers_, attempts, times = np.array(heads, float).reshape(-1, 3).T
        return cls(numbers_, attempts, times, _table([step.metrics for step in steps]))

    def only(self, chosen: NDArray[np.bool_]) -> Batch:
        """The rows for which ``chosen`` is true."""
        if chosen.all():
            return self
        new_rows = np.cumsum(chosen) - 1
        columns = {
            name: (new_rows[rows[chosen[rows]]], values[chosen[rows]])
            for name, (rows, values) in self.columns.items()
            if chosen[rows].any()
        }
        return Batch(self.steps[chosen], self.attempts[chosen], self.times[chosen], columns)

    def with_metrics(self, wanted: Container[str], known: Container[str]) -> Batch:
        """The batch with all values of the ``wanted`` metrics, and one of each other that is not
        ``known`` yet: enough to name it."""
        columns = {
            name: (rows, values) if name in wanted else (rows[:1], values[:1])
            for name, (rows, values) in self.columns.items()
            if name in wanted or name not in known
        }
        return replace(self, columns=columns)

    def step(self, row: int) -> Step:
        """One row as the line it came from."""
        metrics = {}
        for name, (rows, values) in self.columns.items():
            index = int(np.searchsorted(rows, row))
            if index < rows.size and rows[index] == row:
                value = float(values[index])
                metrics[name] = None if np.isnan(value) else value
        return Step(int(self.steps[row]), int(self.attempts[row]), float(self.times[row]), metrics)


def _table(rows: Sequence[Mapping[str, object]]) -> Table:
    """Rows with the same keys are converted as one block; most rows of a run have the same."""
    kinds: dict[tuple[str, ...], list[int]] = {}
    for number, row in enumerate(rows):
        kinds.setdefault(tuple(row), []).append(number)
    parts: dict[str, list[tuple[Ints, Floats]]] = {}
    for keys, members in kinds.items():
        for name, indices, values in _block(keys, members, rows):
            parts.setdefault(name, []).append((indices, values))
    return {name: _in_order(blocks) for name, blocks in parts.items()}


def _block(
    keys: tuple[str, ...], members: list[int], rows: Sequence[Mapping[str, object]]
) -> Iterable[tuple[str, Ints, Floats]]:
    names = [jsonl.line(key) or "" for key in keys]
    values = [list(rows[member].values()) for member in members]
    kinds = set(map(type, chain.from_iterable(values)))
    if not kinds <= _NUMBERS or len(set(names)) < len(names):
        yield from _cell_by_cell(members, rows)
        return
    try:
        block = np.array(values, float)
    except OverflowError:  # an integer beyond any float
        yield from _cell_by_cell(members, rows)
        return
    block[~(np.abs(block) <= LARGEST)] = np.nan
    indices = np.array(members, np.int64)
    for name, column in zip(names, block.T, strict=True):
        yield name, indices, column


def _cell_by_cell(
    members: list[int], rows: Sequence[Mapping[str, object]]
) -> Iterable[tuple[str, Ints, Floats]]:
    for member in members:
        for name, value in numbers(rows[member]).items():
            yield name, np.array([member]), np.array([value], float)


def _in_order(parts: list[tuple[Ints, Floats]]) -> tuple[Ints, Floats]:
    """One column of several blocks, by ascending row."""
    if len(parts) == 1:
        return parts[0]
    rows = np.concatenate([part[0] for part in parts])
    values = np.concatenate([part[1] for part in parts])
    order = np.argsort(rows, kind="stable")
    return rows[order], values[order]


_LINES_AT_ONCE = 512


def read_batches(train_log: Path) -> Iterator[Batch]:
    """The steps in a ``train_log.jsonl`` now, in parts; none for a missing file."""
    if not train_log.is_file():
        return
    with files.open_regular(train_log) as handle:
        lines = numbered_lines(handle.fileno())
        while part := [line for _, line in islice(lines, _LINES_AT_ONCE)]:
            yield Batch.from_lines(part)


_MAX_STEPS = 65_536
"""With 90 metrics these take 90 MiB."""


class Columns:
    """The history of a run: every metric by step. ``version`` grows with each change.

    Whoever needs numbers by step fills one: with ``read`` from a file as it is, with ``update``
    from a run that is polled, with ``merge`` from steps of an external log.
    """

    def __init__(self) -> None:
        self._columns: dict[str, Column] = {}
        self._times = Clock()
        self._attempts = Column()
        self._attempt = 0
        self.earlier: Columns | None = None
        """The training before, of a history in which another one began from its first step."""
        self.version = 0
        self._forgotten = 0

    @classmethod
    def read(cls, train_log: Path, wanted: Container[str] = ()) -> Columns:
        """The steps in a ``train_log.jsonl`` now; none for a missing file.

        ``wanted`` names the metrics to keep, for the sake of memory (default: all).
        """
        columns = cls()
        for batch in read_batches(train_log):
            columns.merge(batch.with_metrics(wanted, columns._columns) if wanted else batch)
        return columns

    def update(self, batch: Batch, events: Iterable[Event], *, restarted: bool = False) -> None:
        """Take over what polling a run brought; ``restarted``: the steps begin again."""
        if restarted:
            self.forget()
        self.merge(batch)
        for event in events:
            self._times.note(event)

    @property
    def names(self) -> list[str]:
        return sorted(self._columns)

    @property
    def times(self) -> Clock:
        """Unix seconds at which each step was logged."""
        return self._times

    @property
    def rewrites(self) -> int:
        """Grows when an earlier value changes in any column."""
        columns = (self._times, *self._columns.values())
        return self._forgotten + sum(column.rewrites for column in columns)

    def forget(self) -> None:
        """Drop all steps, as when the file was truncated or replaced; ``version`` keeps growing."""
        self.version += 1
        self._forgotten += sum(column.rewrites for column in self._columns.values())
        self._columns, self._attempts, self._attempt = {}, Column(), 0
        self._times.clear()
        self.earlier = None

    def frozen(self) -> Columns:
        """The columns as they are now, for another thread."""
        frozen = copy(self)
        frozen._columns = {name: copy(column) for name, column in self._columns.items()}
        frozen._times, frozen._attempts = copy(self._times), copy(self._attempts)
        return frozen

    def renamed(self, names: Mapping[str, str]) -> Columns:
        """The columns as they are now, some under other names: ``{old: new}``."""
        frozen = self.frozen()
        for old, new in names.items():
            frozen._columns[new] = frozen._columns.pop(old)
        return frozen

    def add(self, line: Step) -> None:
        """Take over a line of the history, as ``train_log.history`` does.

        A step that a later attempt repeats replaces all metrics of the earlier one; an attempt that
        begins from the first step replaces the history.
        """
        self.version += 1
        step = line.step
        if line.attempt > self._attempt:
            if len(self._times) and step <= max(1, self._times.steps[0]):
                earlier = self.frozen()
                self.forget()
                earlier.earlier, self.earlier = None, earlier
            self._attempt = line.attempt
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
        """Take over many lines, as ``add`` would one by one."""
        bounds = np.flatnonzero((np.diff(batch.steps) < 0) | (np.diff(batch.attempts) != 0))
        edges = [0, *(bounds + 1).tolist(), len(batch)]
        for start, end in pairwise(edges):
            # Rows up to the last known step repeat, or may repeat, steps that are there already.
            last = self._times.steps[-1] if len(self._times) else -np.inf
            new = start + int(np.searchsorted(batch.steps[start:end], last, side="right"))
            for row in range(start, new):
                self.add(batch.step(row))
            if new < end:
                self._extend(batch, new, end)

    def _extend(self, batch: Batch, start: int, end: int) -> None:
        """Append rows of one attempt whose steps never decrease and are all new."""
        self.version += 1
        steps = batch.steps[start:end]
        self._attempt = max(self._attempt, int(batch.attempts[start]))
        self._attempts.extend(steps, batch.attempts[start:end])
        self._times.extend(steps, batch.times[start:end])
        for name, (rows, values) in batch.columns.items():
            first, last = np.searchsorted(rows, [start, end])
            if last > first:
                column = self._columns.setdefault(name, Column())
                column.extend(batch.steps[rows[first:last]], values[first:last])

    def thin(self, max_steps: int = _MAX_STEPS) -> None:
        """Bound the memory of an endless history: while it has more than ``max_steps``, drop every
        second step of its older half."""
        while (size := len(self._times)) > max_steps:
            self.version += 1
            out = self._times.steps[1 : size // 2 : 2].copy()
            for column in (self._times, self._attempts, *self._columns.values()):
                column.leave_out(out)

    def get(self, name: str) -> Column:
        """The metric's column; an empty one when no step has it."""
        return self._columns.get(name) or Column()
