"""Many lines of a ``train_log.jsonl`` as columns: a long history in a fraction of a second."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from engine.base import jsonl
from engine.history.train_log import Step, numbers

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Table = dict[str, tuple[Ints, Floats]]

LARGEST = 1e100  # as in ``jsonl.number``
_NUMBERS = frozenset({float, int, type(None)})


@dataclass(frozen=True, eq=False)
class Batch:
    """The steps of some lines, in the order they were written.

    ``columns`` holds, for every metric, the ascending rows that have it and its values; NaN is a
    null. The numbers are those that ``Step.from_json`` gives for each line.
    """

    steps: Floats
    attempts: Floats
    times: Floats
    columns: Table

    def __len__(self) -> int:
        return self.steps.size

    @classmethod
    def from_lines(cls, lines: Iterable[bytes]) -> Batch:
        """Lines that are no step are left out."""
        records = [record for line in lines if (record := _parse(line)) is not None]
        heads = [
            (
                step,
                jsonl.integer(record.get("attempt")) or 1,
                jsonl.moment(record.get("t")) or 0.0,
            )
            for record in records
            if (step := jsonl.integer(record["step"])) is not None
        ]
        steps, attempts, times = np.array(heads, float).reshape(-1, 3).T
        return cls(steps, attempts, times, _table([record["metrics"] for record in records]))

    @classmethod
    def from_steps(cls, steps: Sequence[Step]) -> Batch:
        heads = [(step.step, step.attempt, step.time) for step in steps]
        numbers_, attempts, times = np.array(heads, float).reshape(-1, 3).T
        return cls(numbers_, attempts, times, _table([step.metrics for step in steps]))

    @classmethod
    def woven(cls, parts: Sequence[tuple[Ints, Batch]]) -> Batch:
        """Several batches as one; with each come the rows that its own become, ascending."""
        heads = np.empty((3, sum(len(batch) for _, batch in parts)))
        columns: dict[str, list[tuple[Ints, Floats]]] = {}
        for places, batch in parts:
            heads[:, places] = batch.steps, batch.attempts, batch.times
            for name, (rows, values) in batch.columns.items():
                columns.setdefault(name, []).append((places[rows], values))
        steps, attempts, times = heads
        table = {name: _in_order(found) for name, found in columns.items()}
        return cls(steps, attempts, times, table)

    def only(self, kept: NDArray[np.bool_]) -> Batch:
        """The rows for which ``kept`` is true."""
        places = np.cumsum(kept) - 1
        columns = {
            name: (places[rows[kept[rows]]], values[kept[rows]])
            for name, (rows, values) in self.columns.items()
            if kept[rows].any()
        }
        return Batch(self.steps[kept], self.attempts[kept], self.times[kept], columns)

    def step(self, row: int) -> Step:
        """One row as the line it came from."""
        found = {}
        for name, (rows, values) in self.columns.items():
            place = int(np.searchsorted(rows, row))
            if place < rows.size and rows[place] == row:
                value = float(values[place])
                found[name] = None if np.isnan(value) else value
        return Step(int(self.steps[row]), int(self.attempts[row]), float(self.times[row]), found)


def _parse(line: bytes) -> dict[str, Any] | None:
    try:
        record = orjson.loads(line)
    except orjson.JSONDecodeError:
        record = jsonl.parse_line(line)  # It takes NaN, a BOM and half surrogates too.
    if not isinstance(record, dict) or jsonl.integer(record.get("step")) is None:
        return None
    return record if isinstance(record.get("metrics"), dict) else None


def _table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """Rows with the same keys are converted as one block; most rows of a run have the same."""
    kinds: dict[tuple[str, ...], list[int]] = {}
    for number, row in enumerate(rows):
        kinds.setdefault(tuple(row), []).append(number)
    parts: dict[str, list[tuple[Ints, Floats]]] = {}
    for keys, members in kinds.items():
        for name, places, values in _block(keys, members, rows):
            parts.setdefault(name, []).append((places, values))
    return {name: _in_order(found) for name, found in parts.items()}


def _block(
    keys: tuple[str, ...], members: list[int], rows: Sequence[Mapping[str, Any]]
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
    places = np.array(members, np.int64)
    for name, column in zip(names, block.T, strict=True):
        yield name, places, column


def _cell_by_cell(
    members: list[int], rows: Sequence[Mapping[str, Any]]
) -> Iterable[tuple[str, Ints, Floats]]:
    for member in members:
        for name, value in numbers(rows[member]).items():
            yield name, np.array([member]), np.array([value], float)


def _in_order(parts: list[tuple[Ints, Floats]]) -> tuple[Ints, Floats]:
    if len(parts) == 1:
        return parts[0]
    rows = np.concatenate([part[0] for part in parts])
    values = np.concatenate([part[1] for part in parts])
    order = np.argsort(rows, kind="stable")
    return rows[order], values[order]
