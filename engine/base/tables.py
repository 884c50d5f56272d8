"""Rows of values as lines of CSV, Markdown or aligned text, and tables in the documentation."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, Literal

from engine.base.errors import UsageError

Form = Literal["csv", "markdown"]
Row = Sequence[Any]
_END = "<!-- end -->"


def table_lines(form: Form, names: Sequence[str], rows: Iterable[Row]) -> Iterator[str]:
    """The lines of a table, each with its line break. ``names`` are those of the columns.

    None is an empty cell and NaN is ``NaN``; a float has the shortest text that reads back as it.
    """
    return _FORMS[form](names, (list(map(format_cell, row)) for row in rows))


def markdown_table(names: Sequence[str], rows: Iterable[Row]) -> str:
    """A table for a page, without the last line break."""
    return "".join(table_lines("markdown", names, rows)).rstrip("\n")


def aligned_lines(
    rows: Iterable[Sequence[str]], *, numbers: bool = False, indent: str = ""
) -> Iterator[str]:
    """The lines of a table in columns, for a terminal. The first row has the heads.

    Of ``numbers``, all columns but the first are aligned right.
    """
    table = list(rows)
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for first, *others in table:
        pad = str.rjust if numbers else str.ljust
        cells = (pad(cell, width) for cell, width in zip(others, widths[1:], strict=True))
        yield f"{indent}{'  '.join([first.ljust(widths[0]), *cells])}".rstrip()


def format_cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else repr(value)
    return str(value)


class _Line:
    """The file that ``csv.writer`` writes a line to."""

    text = ""

    def write(self, text: str) -> None:
        self.text = text


def _csv_lines(names: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    line = _Line()
    writer = csv.writer(line, lineterminator="\n")
    for cells in chain([names], rows):
        writer.writerow([f"'{cell}" if _is_formula(cell) else cell for cell in cells])
        yield line.text


def _is_formula(cell: str) -> bool:
    """Whether a spreadsheet would compute a text; one after an apostrophe it shows."""
    if not cell.startswith(("=", "+", "-", "@", "\t", "\r")):
        return False
    try:
        float(cell)
    except ValueError:
        return True
    return False


def _markdown_lines(names: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    for cells in chain([names, ["---"] * len(names)], rows):
        escaped = (" ".join(cell.replace("|", "\\|").split()) for cell in cells)
        yield f"| {' | '.join(escaped)} |\n"


_FORMS: Mapping[Form, Callable[[Sequence[str], Iterable[Sequence[str]]], Iterator[str]]] = {
    "csv": _csv_lines,
    "markdown": _markdown_lines,
}


def write_between_marks(path: Path, title: str, text: str) -> None:
    """Replace what is between ``<!-- TITLE: make generated -->`` and ``<!-- end -->`` in a page of
    the documentation, as ``make generated`` does."""
    begin = f"<!-- {title}: make generated -->\n"
    before, begin_mark, rest = path.read_text(encoding="utf-8").partition(begin)
    _, end_mark, after = rest.partition(_END)
    if not begin_mark or not end_mark:
        raise UsageError(f"{path} has no part between {begin.strip()} and {_END}")
    path.write_text(f"{before}{begin}{text}\n{_END}{after}", encoding="utf-8")
