"""Tables of metrics: CSV, with a header that names a column of steps.

Commas, semicolons or tabs separate the cells; an empty cell is no value, and nor is a ``nan`` in a
table that writes gaps so. A header may come again in the middle, where a resumed run was appended.
W&B names the columns of a chart's export ``RUN - METRIC``, beside the ends of its band.
"""

from __future__ import annotations

import csv
import re
from pathlib import Path

from engine.base import files
from engine.base.errors import UsageError
from engine.logs.formats.format import LineFormat, Parser, Sample, StepParser
from engine.logs.formats.names import find_step_name, step_of_total
from engine.run.history.train_log import Metrics, Step

_SEPARATORS = (",", ";", "\t")
_LONGEST_HEADER = 256 * 1024
_OF_CHART = re.compile(r"(?P<run>.+?) - (?P<metric>\S+?)(?P<end>__MIN|__MAX)?")


class CsvFormat(LineFormat):
    key, name = "csv", "CSV with a step column"
    trainers, file_names = ("CSV",), ("*.csv",)
    reads = (
        "a header with `step`, `global_step`, `iteration` or `epoch`, and a row per step; the "
        "export of a W&B chart, `RUN - METRIC`"
    )
    is_general = True

    def matches(self, sample: Sample) -> bool:
        header, *rows = sample.head.split(b"\n")[:20]
        columns = Columns.of(header)
        return columns is not None and any(columns.step(row) is not None for row in rows)

    def complete_part(self, line: bytes) -> bytes:
        return b""  # The last number of a row may lack digits.

    def parser(self, path: Path) -> Parser:
        return CsvParser(_first_line(path))


class Columns:
    """The names of the columns, and which of them is the step."""

    def __init__(self, separator: str, names: list[str], step_name: str) -> None:
        self._separator = separator
        self.names = names
        self._step = names.index(step_name)

    @classmethod
    def of(cls, line: bytes) -> Columns | None:
        """The columns that a header names; None for any other line."""
        for separator in _SEPARATORS:
            names = _cells(line, separator)
            step_name = find_step_name(tuple(names)) if len(names) > 1 else None
            if step_name is not None:
                return cls(separator, _without_run(names), step_name)
        return None

    def step(self, line: bytes) -> tuple[int, dict[str, str]] | None:
        """The step of a row and its other cells that are not empty; None for any other line."""
        cells = _cells(line, self._separator)
        if len(cells) != len(self.names):
            return None
        number, _ = step_of_total(cells[self._step])
        others = {
            name: cell
            for index, (name, cell) in enumerate(zip(self.names, cells, strict=True))
            if index != self._step and cell and name
        }
        return None if number is None else (number, others)


class CsvParser(StepParser):
    def __init__(self, header: bytes) -> None:
        super().__init__()
        self._columns = Columns.of(header)
        self._seen: dict[str, float | None] = {}
        """The last value of each column."""
        self._has_gaps = False
        """Whether a column had numbers again after a NaN: a loss that became NaN stays so."""

    def step(self, line: bytes) -> Step | None:
        row = self._columns.step(line) if self._columns else None
        if row is None:
            self._columns = Columns.of(line) or self._columns
            return None
        number, cells = row
        values = self._without_gaps(self.names.metrics(cells))
        return self.numbering.step(number, values) if values else None

    def _without_gaps(self, values: Metrics) -> Metrics:
        self._has_gaps = self._has_gaps or any(
            value is not None and self._seen.get(name, 0.0) is None
            for name, value in values.items()
        )
        kept = {
            name: value
            for name, value in values.items()
            if value is not None or (name in self._seen and not self._has_gaps)
        }
        self._seen.update(values)
        return kept


def _without_run(names: list[str]) -> list[str]:
    """The metrics that the columns of a chart's export hold; of several runs, ``METRIC (RUN)``.

    The ends of the band that W&B draws around a smoothed line get no name, and nor does its step.
    """
    columns = [_OF_CHART.fullmatch(name) for name in names]
    metrics = [column for column in columns if column is not None and not column["end"]]
    if not metrics or columns.count(None) > 1:
        return names
    is_one = len({column["run"] for column in metrics}) == 1
    named = []
    for name, column in zip(names, columns, strict=True):
        if column is None:
            named.append(name)
        elif column["end"] or column["metric"] in ("_step", "_runtime", "_timestamp"):
            named.append("")
        else:
            named.append(column["metric"] if is_one else f"{column['metric']} ({column['run']})")
    return named


def _cells(line: bytes, separator: str) -> list[str]:
    text = line.decode("utf-8-sig", errors="replace").strip("\r\n\0")
    try:
        return [cell.strip() for cell in next(csv.reader([text], delimiter=separator), [])]
    except csv.Error:
        return []


def _first_line(path: Path) -> bytes:
    try:
        with files.open_regular(path) as handle:
            return handle.readline(_LONGEST_HEADER)
    except (OSError, UsageError):
        return b""
