"""Read the records of a file that people have: JSONL, JSON, CSV or parquet."""

from __future__ import annotations

import codecs
import csv
import shlex
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from engine.base import files, jsonl
from engine.base.errors import UsageError
from engine.base.parquet import pa, pq

SUFFIXES = (".jsonl", ".json", ".csv", ".tsv", ".parquet")
_BATCH = 1000

Record = dict[str, Any]


def read_records(path: Path) -> Iterator[tuple[int, Record]]:
    """The records with their numbers: lines from 1, or rows of parquet and JSON from 0.

    Blank lines are skipped. Memory holds one batch, but of a .json file all of it. UsageError for a
    file that cannot be read, and for the first line that is no record.
    """
    require_file(path)
    match path.suffix.lower():
        case ".parquet":
            return _parquet_rows(path)
        case ".json":
            return _json_items(path)
        case ".jsonl":
            return _json_lines(path)
        case ".csv" | ".tsv":
            return _table_rows(path)
    raise AssertionError(path.suffix)


def require_file(path: Path) -> None:
    """UsageError for what is no file, or of no format that is read."""
    if not path.is_file():
        problem = "is a folder" if path.is_dir() else "does not exist"
        raise UsageError(f"{path} {problem}; give a file ({', '.join(SUFFIXES)})")
    if path.suffix.lower() not in SUFFIXES:
        known = f"{', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}"
        raise UsageError(f"{path}: the name must end in {known}")


def _json_lines(path: Path) -> Iterator[tuple[int, Record]]:
    with files.open_regular(path) as handle:
        for number, line in enumerate(handle, start=1):
            if not line.strip():
                continue
            record = jsonl.parse_line(line.removeprefix(codecs.BOM_UTF8) if number == 1 else line)
            if record is None:
                require_utf8(path)
                raise UsageError(f"{path}: line {number} is not a JSON object")
            yield number, record


def _json_items(path: Path) -> Iterator[tuple[int, Record]]:
    """The items of a list, or of the one list in an object (``{"data": [...]}``)."""
    try:
        value = jsonl.parse_value(path.read_bytes().removeprefix(codecs.BOM_UTF8))
    except ValueError as error:
        require_utf8(path)
        raise UsageError(f"{path} is not JSON: {error}") from error
    if isinstance(value, dict):
        lists = {name: item for name, item in value.items() if isinstance(item, list)}
        if len(lists) != 1:
            raise UsageError(f"{path}: neither a list nor an object with one list of records")
        [value] = lists.values()
    if not isinstance(value, list):
        raise UsageError(f"{path}: not a list of records")
    for number, record in enumerate(value):
        if not isinstance(record, dict):
            raise UsageError(f"{path}: item {number} is not a JSON object")
        yield number, record


def _table_rows(path: Path) -> Iterator[tuple[int, Record]]:
    csv.field_size_limit(sys.maxsize)
    with path.open(newline="", encoding="utf-8-sig") as handle:
        rows = csv.DictReader(handle, strict=True)
        try:
            line = handle.readline()
            if "\0" in line:  # UTF-16 without a mark at its beginning is valid UTF-8.
                require_utf8(path)
            handle.seek(0)
            delimiter = _delimiter(line, "\t" if path.suffix.lower() == ".tsv" else ",")
            rows = csv.DictReader(handle, delimiter=delimiter, strict=True)
            _check_names(path, rows.fieldnames or ())
            for row in rows:
                if None in row or None in row.values():
                    columns = len(rows.fieldnames or ())
                    raise UsageError(
                        f"{path}: line {rows.line_num} does not have {columns} columns, as line 1"
                    )
                yield rows.line_num, row
        except (csv.Error, UnicodeDecodeError) as error:
            require_utf8(path)
            raise UsageError(f"{path}: line {rows.line_num + 1}: {error}") from error


_DELIMITERS = (",", ";", "\t", "|")


def _delimiter(line: str, usual: str) -> str:
    """What separates the columns of a table's first line: that with the most columns."""
    counts = {each: len(next(csv.reader([line], delimiter=each), ())) for each in _DELIMITERS}
    likely = max(counts, key=lambda each: counts[each])
    return likely if counts[likely] > max(counts[usual], 1) else usual


def _check_names(path: Path, names: Sequence[str]) -> None:
    """UsageError for columns of the same name: only one of them would be read."""
    repeated = next((name for name in names if names.count(name) > 1), None)
    if repeated is not None:
        raise UsageError(f"{path}: line 1 has several columns named {repeated!r}; rename them")


def require_utf8(path: Path) -> None:
    """UsageError, with the command that converts it, for a text in another encoding."""
    with files.open_regular(path) as handle:
        if handle.read(2) in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
            raise UsageError(f"{path} is UTF-16, not UTF-8; {_format_conversion(path, 'UTF-16')}")
        handle.seek(0)
        for number, line in enumerate(handle, start=1):
            if b"\0" in line:
                problem = f"line {number} has zero bytes, as UTF-16 does"
                raise UsageError(f"{path}: {problem}; {_format_conversion(path, 'UTF-16')}")
            try:
                line.decode()
            except UnicodeDecodeError as error:
                problem = f"line {number} is not UTF-8 (byte 0x{line[error.start]:02x})"
                advice = _format_conversion(path, "LATIN1")
                raise UsageError(f"{path}: {problem}; if it is Latin-1, {advice}") from error


def _format_conversion(path: Path, encoding: str) -> str:
    old, new = (shlex.quote(str(each)) for each in (path, path.with_stem(f"{path.stem}-utf8")))
    return f"convert it: iconv -f {encoding} -t UTF-8 {old} > {new}"


def _parquet_rows(path: Path) -> Iterator[tuple[int, Record]]:
    try:
        file = pq.ParquetFile(path)
        number = 0
        for batch in file.iter_batches(batch_size=_BATCH):
            for record in batch.to_pylist():
                yield number, record
                number += 1
    except (pa.ArrowException, OSError) as error:
        raise UsageError(f"{path} cannot be read as parquet: {error}") from error
