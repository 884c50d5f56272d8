"""Data sets become examples: the declaration of an adapter, and tools to read rows."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from engine.base import files, jsonl
from engine.base.errors import UsageError, tell, with_advice
from engine.base.records import read_records
from engine.data.hub_data import fetch
from engine.data.hub_source import HubData, HubSource

DomainType = Literal["open_rubric", "verifiable"]


@dataclass(frozen=True, slots=True)
class Example:
    """One question of a data set.

    ``answers`` may be empty (none known yet). ``gold_scores`` is set only by data sets that contain
    the right answers; for others a judge computes it from ``golden_rubric``.
    """

    question_id: str
    question: str
    context: str
    golden_rubric: str = ""
    answers: tuple[str, ...] = ()
    gold_scores: tuple[float, ...] = ()
    ground_truth: str = ""
    category: str = ""
    subject: str = ""

    @property
    def texts(self) -> tuple[str, ...]:
        """The texts of its own: the question, its rubric and truth, and the answers."""
        return self.question, self.golden_rubric, self.ground_truth, *self.answers


@dataclass(frozen=True, kw_only=True)
class Adapter:
    """One data set. No field has a default, so none can be forgotten."""

    name: str
    summary: str
    """Its description in ``--help``."""
    domain_type: DomainType
    hub: HubSource | None
    """Where the rows are when no file is given; None: a file is needed."""
    read: Reader
    """``read_rows_with(make_example)``, or another function for another layout."""

    def load(self, path: Path | None, answers_path: Path | None = None) -> list[Example]:
        """The examples of a local file, or of the hub without one.

        ``answers_path`` is a second file with answers, for data sets that have one.
        """
        return self.read(self, path, answers_path)

    def pin(self, path: Path | None) -> tuple[Adapter, dict[str, str]]:
        """The adapter of the hub's newest commit, and the content hashes of its files.

        With a local file it is itself, without hashes.
        """
        if path is not None or self.hub is None:
            return self, {}
        data = _fetch(self.hub, self.name)
        return replace(self, hub=replace(self.hub, revision=data.commit)), data.fingerprints()


Reader = Callable[[Adapter, Path | None, Path | None], list[Example]]
MakeExample = Callable[[dict[str, Any], int], Example]


def read_rows_with(make_example: MakeExample) -> Reader:
    """Read JSON lines, each with ``make_example(row, index)``; see ``examples_of``."""

    def read(adapter: Adapter, path: Path | None, _: Path | None) -> list[Example]:
        return examples_of(source_rows(path, adapter.hub, adapter.name), adapter.name, make_example)

    return read


def source_rows(path: Path | None, hub: HubSource | None, name: str) -> Iterator[dict[str, Any]]:
    """Raw rows of a local JSONL file, or of the hub when ``path`` is None; memory holds one."""
    if path is None:
        yield from _hub_rows(hub, name)
        return
    if not path.is_file():
        raise UsageError(f"{name}: {path} does not exist")
    row = None
    for row in read_lines(path, name):
        yield row
    if row is None:
        raise UsageError(f"{name}: {path} has no JSON lines")


def read_lines(path: Path, name: str) -> Iterator[dict[str, Any]]:
    """The records of a JSONL file; UsageError names the first line that is not one."""
    with files.open_regular(path) as handle:
        for number, line in enumerate(handle, start=1):
            record = jsonl.parse_line(line)
            if record is not None:
                yield record
            elif line.strip():
                start = line[:60].decode(errors="replace").strip()
                message = f"line {number} is not a JSON object: {start!r}"
                raise UsageError(f"{name}: {path}: {message}; the file must be JSONL")


class UnusableRowError(Exception):
    """A row lacks what an example needs; the message says what."""


def text_field(row: Mapping[str, Any], field: str) -> str:
    """The text of a field; ValueError for anything else, and for a blank one."""
    value = row[field]
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"{field} is {_shortened(value)}, not text")
    return value


def id_field(row: Mapping[str, Any], field: str) -> str:
    """An id, which may be a number, as text; ValueError for anything else."""
    name = id_text(row[field])
    if name is None:
        raise ValueError(f"{field} is {_shortened(row[field])}, not an id")
    return name


def id_text(value: Any) -> str | None:
    """An id as text; None for what names nothing.

    1 and 1.0 are one id: a table with a gap in a column of whole numbers holds floats.
    """
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    if isinstance(value, float):
        if not math.isfinite(value):
            return None
        return str(int(value)) if value.is_integer() else str(value)
    return str(value) or None


def _shortened(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}..."


def examples_of(
    rows: Iterable[dict[str, Any]], name: str, make_example: MakeExample
) -> list[Example]:
    """``make_example(row, index)`` of every row, without repeats.

    Rows that raise UnusableRowError are left out and counted in a note. UsageError names the first
    malformed row, two different rows with one id, and data without any usable row.
    """
    examples: dict[str, tuple[int, Example]] = {}
    unusable: list[str] = []
    count = 0
    for index, row in enumerate(rows):
        count += 1
        try:
            example = make_example(row, index)
        except UnusableRowError as error:
            unusable.append(f"e.g. row {index + 1}: {error}")
            continue
        except KeyError as error:
            fields = ", ".join(sorted(row)[:8])
            raise UsageError(f"{name}: row {index + 1} has no {error} (it has {fields})") from error
        except (AttributeError, TypeError, ValueError) as error:
            raise UsageError(f"{name}: row {index + 1} is malformed: {error}") from error
        first, earlier = examples.setdefault(example.question_id, (index, example))
        if earlier != example:
            pair = f"rows {first + 1} and {index + 1}"
            message = f"{pair} are different questions with the id '{example.question_id}'"
            raise UsageError(f"{name}: {message}; give each its own id")
    if unusable and not examples:
        raise UsageError(f"{name}: none of {count:,} rows can be used, {unusable[0]}")
    if unusable:
        share = f"{len(unusable):,} of {count:,} rows are left out"
        tell(f"note: {name}: {share}, {unusable[0]}")
    return [example for _, example in examples.values()]


def distinct(texts: Iterable[str]) -> tuple[str, ...]:
    """Non-blank texts in first-seen order, without repeats."""
    return tuple(dict.fromkeys(text for text in texts if text and text.strip()))


def _hub_rows(hub: HubSource | None, name: str) -> Iterator[dict[str, Any]]:
    if hub is None:
        raise UsageError(f"{name}: give the path of a local JSONL file")
    for file in _fetch(hub, name).files:
        for _, record in read_records(file.path):
            yield record


def _fetch(hub: HubSource, name: str) -> HubData:
    try:
        return fetch(hub, os.environ)
    except UsageError as error:
        advice = "Or give the path of a local JSONL file"
        raise UsageError(with_advice(f"{name}: {error}", advice)) from error
