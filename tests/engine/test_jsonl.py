"""Files that many processes write."""

from __future__ import annotations

import contextlib
import json
import math
import multiprocessing
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from engine import jsonl


def test_a_torn_last_line_is_skipped(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text('{"a": 1}\n{"a": 2')
    assert list(jsonl.read(path)) == [{"a": 1}]


def test_a_missing_file_has_no_records(tmp_path: Path) -> None:
    assert list(jsonl.read(tmp_path / "none.jsonl")) == []


def test_nan_is_written_as_null(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    jsonl.append(path, {"a": math.nan, "b": [math.inf, 1.0]})
    assert json.loads(path.read_text()) == {"a": None, "b": [None, 1.0]}


def append_many(path: Path, writer: int) -> None:
    for number in range(200):
        jsonl.append(path, {"writer": writer, "number": number, "text": "x" * 3000})


def test_lines_of_concurrent_writers_never_mix(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    context = multiprocessing.get_context("fork")
    writers = [context.Process(target=append_many, args=(path, w)) for w in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert len(path.read_text().splitlines()) == len(list(jsonl.read(path))) == 800


@given(st.binary())
def test_no_line_breaks_the_reader(line: bytes) -> None:
    record = jsonl.parse_line(line)
    assert record is None or isinstance(record, dict)


def test_an_atomic_write_that_fails_leaves_the_old_file_alone(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    jsonl.write_json(path, {"a": 1})
    with contextlib.suppress(TypeError):
        jsonl.write_json(path, {"a": object()})
    assert jsonl.read_json(path) == {"a": 1}
    assert [file.name for file in tmp_path.iterdir()] == ["state.json"]
