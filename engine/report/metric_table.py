"""Metrics per step of several runs as one table: CSV, parquet and Markdown.

A wide table has a row for each run and step and a column for each metric; a long one has a row for
each value. A metric that a step did not log is missing: an empty cell, a null, or in a long table
no row. A value that was logged as NaN is ``NaN``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from engine.base import files, tables
from engine.base.errors import UsageError
from engine.base.jsonl import finite
from engine.base.masking import distinct_masked
from engine.logs.formats.series import meanings_of, names, unknown_metric
from engine.run.history.columns import Column, Columns

Form = tables.Form | Literal["parquet"]
SUFFIXES: dict[str, Form] = {".csv": "csv", ".parquet": "parquet", ".md": "markdown"}


@dataclass(frozen=True)
class Values:
    """A column of a table, and which of its cells are missing."""

    values: NDArray[Any]
    missing: NDArray[np.bool_]

    def cells(self) -> list[object]:
        """Python values, None where one is missing."""
        cells: list[object] = self.values.tolist()
        for index in np.flatnonzero(self.missing):
            cells[index] = None
        return cells


@dataclass(frozen=True)
class MetricTable:
    """Equally long columns by name, without secrets in the names: ``run`` and ``step`` first."""

    columns: dict[str, Values]

    def __len__(self) -> int:
        return next(iter(self.columns.values())).values.size

    def rows(self) -> Iterator[tuple[object, ...]]:
        return zip(*(column.cells() for column in self.columns.values()), strict=True)

    def to_json(self) -> list[dict[str, object]]:
        """A dict for each row, without the missing cells and with None for NaN."""
        return [
            {
                name: finite(cell)
                for name, cell in zip(self.columns, row, strict=True)
                if cell is not None
            }
            for row in self.rows()
        ]


Source = tuple[str, Columns]
"""What a table calls a run, and its history."""


def wide_table(sources: Sequence[Source], metrics: Sequence[str] = ()) -> MetricTable:
    """A row for each run and step, a column for each of ``metrics`` (default: all, sorted).

    UsageError for a metric that no run has logged.
    """
    chosen = _chosen(sources, metrics)
    steps = [
        np.unique(np.concatenate([_column(columns, each).steps for each in chosen.values()]))
        for _, columns in sources
    ]
    table = {
        "run": _labels(sources, [part.size for part in steps]),
        "step": _complete(np.concatenate([*steps, np.array([])]).astype(np.int64)),
    }
    for name, meanings in zip(distinct_masked(chosen), chosen.values(), strict=True):
        pairs = zip(sources, steps, strict=True)
        parts = [_at(_column(columns, meanings), part) for (_, columns), part in pairs]
        values, missing = zip(*parts, strict=True)
        table[name] = Values(np.concatenate(values), np.concatenate(missing))
    return MetricTable(table)


def long_table(sources: Sequence[Source], metrics: Sequence[str] = ()) -> MetricTable:
    """A row for each value, by run, metric and step; ``wide_table`` has the errors."""
    chosen = _chosen(sources, metrics)
    columns = [_column(columns, each) for _, columns in sources for each in chosen.values()]
    sizes = [len(column) for column in columns]
    titles = distinct_masked(chosen) * len(sources)
    owners = [source for source in sources for _ in chosen]
    table = {
        "run": _labels(owners, sizes),
        "step": _complete(np.concatenate([column.steps for column in columns]).astype(np.int64)),
        "metric": _complete(np.repeat(np.array(titles, object), sizes)),
        "value": _complete(np.concatenate([column.values for column in columns])),
    }
    return MetricTable(table)


def _chosen(sources: Sequence[Source], metrics: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """The names of the columns, each with the names that runs may have logged it by."""
    known = sorted({name for _, columns in sources for name in names(columns)})
    if not known:
        raise UsageError(f"{', '.join(label for label, _ in sources)}: no step was logged")
    if not metrics:
        return {name: (name,) for name in known}
    chosen = {metric: meanings_of(metric) for metric in metrics}
    for metric, meanings in chosen.items():
        if not {*meanings} & {*known}:
            raise unknown_metric(metric, known, sources[0][0])
    return chosen


def _column(columns: Columns, meanings: Sequence[str]) -> Column:
    """The first of the columns that has values, as ``metrics`` chooses it."""
    found = (columns.get(name) for name in meanings)
    return next((column for column in found if len(column)), columns.get(meanings[0]))


def _at(column: Column, steps: NDArray[np.float64]) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """The values of ``steps``, and which of these have none."""
    missing = ~np.isin(steps, column.steps)
    return np.where(missing, math.nan, column.at(steps)), missing


def _labels(sources: Sequence[Source], sizes: Sequence[int]) -> Values:
    return _complete(np.repeat(np.array([label for label, _ in sources], object), sizes))


def _complete(values: NDArray[Any]) -> Values:
    return Values(values, np.zeros(values.size, np.bool_))


def find_form(path: Path) -> Form:
    """The format of a file by its name. UsageError for an unknown one."""
    if (form := SUFFIXES.get(path.suffix.lower())) is None:
        raise UsageError(f"{path}: the name of a table ends with {', '.join(SUFFIXES)}")
    return form


def write_table(table: MetricTable, path: Path, form: Form) -> None:
    """Write a table to a file, which is replaced once the table is complete."""
    if form == "parquet":
        _write_parquet(table, path)
    else:
        files.write_atomic(path, text_of(table, form))


def text_of(table: MetricTable, form: tables.Form) -> Iterator[str]:
    """The lines of a table as CSV or Markdown, each with its line break."""
    return tables.table_lines(form, tuple(table.columns), table.rows())


def _write_parquet(table: MetricTable, path: Path) -> None:
    from engine.base.parquet import pa, pq

    arrays = {
        name: pa.array(column.values, mask=column.missing, from_pandas=False)
        for name, column in table.columns.items()
    }
    with files.replacing(path) as handle:
        pq.write_table(pa.table(arrays), handle)
