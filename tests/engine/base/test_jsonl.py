"""Files that many processes write."""

from __future__ import annotations

import contextlib
import json
import math
import multiprocessing
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.base import jsonl


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


def test_a_line_nested_too_deeply_is_not_a_record() -> None:
    assert jsonl.parse_line(b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}") is None


@pytest.mark.parametrize("half", [rb"\ud800", rb"\uDFFF"])
def test_half_a_surrogate_pair_becomes_a_question_mark(half: bytes) -> None:
    assert jsonl.parse_line(b'{"a": "x' + half + b'"}') == {"a": "x?"}


def test_text_that_is_not_utf_8_can_be_written(tmp_path: Path) -> None:
    record = {"name": os.fsdecode(b"a\xff")}
    jsonl.append(tmp_path / "log.jsonl", record)
    jsonl.write_json(tmp_path / "one.json", record)
    assert list(jsonl.read(tmp_path / "log.jsonl")) == [{"name": "a?"}]
    assert jsonl.read_json(tmp_path / "one.json") == {"name": "a?"}


def test_a_whole_surrogate_pair_is_one_character() -> None:
    assert jsonl.parse_line(rb'{"a": "\ud83d\ude00"}') == {"a": "\U0001f600"}


@pytest.mark.parametrize("value", [True, "1", [1], None, math.nan, math.inf, 10**400])
def test_a_value_that_is_not_finite_reads_as_none(value: Any) -> None:
    assert jsonl.number(value) is None
    assert jsonl.integer(value) is None
    assert jsonl.moment(value) is None


def test_a_time_that_no_calendar_shows_reads_as_none() -> None:
    assert jsonl.moment(1e15) is None
    assert jsonl.moment(-1) is None
    assert jsonl.moment(1_700_000_000) == 1.7e9


@given(st.text())
def test_a_line_of_text_has_nothing_that_moves_or_hides_text(text: str) -> None:
    shown = jsonl.line(text)
    assert shown is not None
    assert shown.isprintable()


def test_an_atomic_write_that_fails_leaves_the_old_file_alone(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    jsonl.write_json(path, {"a": 1})
    with contextlib.suppress(TypeError):
        jsonl.write_json(path, {"a": object()})
    assert jsonl.read_json(path) == {"a": 1}
    assert [file.name for file in tmp_path.iterdir()] == ["state.json"]


def test_a_pipe_in_place_of_a_file_does_not_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "state.json")
    assert jsonl.read_json(tmp_path / "state.json") is None
    with pytest.raises(OSError, match="not a regular file"):
        list(jsonl.read(tmp_path / "state.json"))


@pytest.mark.parametrize("value", ["", "a\0b", "x" * 300, "a/" * 1000, "~nobody-here/x", 3, None])
def test_text_that_no_file_system_accepts_is_not_a_path(value: Any) -> None:
    assert jsonl.location(value) is None
