"""Records of JSON files: what is damaged counts as missing."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Meta, Struct

from engine.base import jsonl
from engine.base.typed import (
    Integer,
    Line,
    Location,
    Moment,
    Number,
    Text,
    convert_record,
    decode_record,
    read_lines,
    read_record,
    to_json,
    write_record,
)


class Parent(Struct, frozen=True):
    run: Line
    relation: Line = ""


class Record(Struct, frozen=True):
    id: Line = ""
    path: Location | None = None
    started: Moment | None = None
    step: Integer | None = None
    reward: Number | None = None
    words: tuple[str, ...] = ()
    tags: Annotated[tuple[str, ...], Meta(max_length=2)] = ()
    phrase: Annotated[Line, Meta(max_length=4)] = ""
    note: Text = ""
    scores: tuple[Number | None, ...] = ()
    parent: Parent | None = None
    parents: dict[str, Parent] = {}
    value: Any = None


@dataclass(frozen=True)
class Figures:
    file: Path
    values: Mapping[str, float]
    steps: tuple[int, ...]


def decode(**fields: Any) -> Record | None:
    return decode_record(json.dumps(fields).encode(), Record)


def test_fields_are_read_as_they_are_written() -> None:
    assert decode(id="a", step=3, reward=1, words=["x"], parent={"run": "b"}) == Record(
        id="a", step=3, reward=1.0, words=("x",), parent=Parent("b")
    )


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("id", 3),
        ("path", ""),
        ("path", "~nobody-of-this-name/x"),
        ("path", "x" * 300),
        ("path", "a\0b"),
        ("started", -1.0),
        ("started", 1e300),
        ("step", 1.5),
        ("step", True),
        ("step", 2**60),
        ("reward", float("nan")),
        ("reward", "1"),
        ("words", "abc"),
        ("parent", {"relation": "fix"}),
        ("parent", []),
        ("parents", [1]),
    ],
)
def test_a_damaged_field_counts_as_missing_and_the_others_stay(field: str, value: Any) -> None:
    assert decode(**{"id": "a", "value": [1], field: value}) == Record(
        id="" if field == "id" else "a", value=[1]
    )


def test_damaged_items_are_left_out_and_gaps_keep_their_place() -> None:
    record = decode(
        words=["a", 1, "b"],
        scores=[1, None, "x", float("nan"), 2],
        parents={"a": {"run": "r"}, "b": 3},
    )

    assert record is not None
    assert record.words == ("a", "b")
    assert record.scores == (1.0, None, None, None, 2.0)
    assert record.parents == {"a": Parent("r")}


def test_lines_are_safe_to_show_and_keep_other_alphabets() -> None:
    record = decode(id="αβ \x1b[31mred\u202e", path="/tmp/ü")

    assert record is not None
    assert record.id == "αβ [31mred"
    assert record.path == "/tmp/ü"


def test_values_of_any_type_have_no_nan() -> None:
    assert decode(value={"a": [1, float("nan")]}) == Record(value={"a": [1, None]})


@pytest.mark.parametrize(
    "text", [b"", b"[]", b"{", b"3", b'{"id": "a"', b"\xff", b'{"id": "\xe9"}']
)
def test_a_text_that_is_no_object_is_no_record(text: bytes) -> None:
    assert decode_record(text, Record) is None


def test_deep_nesting_is_no_record() -> None:
    assert decode_record(b'{"value": ' + b"[" * 100_000, Record) is None


def test_a_record_without_a_required_field_is_none() -> None:
    assert convert_record({"relation": "fix"}, Parent) is None


def test_a_missing_file_is_no_record(tmp_path: Path) -> None:
    assert read_record(tmp_path / "none.json", Record) is None


def test_what_is_too_long_is_cut() -> None:
    record = decode(tags=["a", 1, "b", "c"], phrase="abcdef")
    assert record == Record(tags=("a", "b"), phrase="abcd")


def test_a_text_keeps_its_lines_and_nothing_else_that_moves_a_cursor() -> None:
    assert decode(note="a\nb\x1b[2J\tc\r\nd") == Record(note="a\nb [2J c\nd")


@pytest.mark.parametrize("end", ["\n", "\r", "\x85", "\u2028"])
def test_a_line_does_not_end_with_a_line_break(end: str) -> None:
    assert decode(id=f"a{end}") == Record(id="a")


def test_every_character_that_the_quick_pass_accepts_is_shown_as_it_is() -> None:
    pattern = get_args(Line)[1].pattern
    accepted = [char for char in map(chr, range(0x11000)) if re.search(pattern, char)]
    assert len(accepted) > 95
    assert all(char.isprintable() for char in accepted)


def test_a_record_in_json_has_its_fields_and_paths_as_texts() -> None:
    value = {"records": [Figures(Path("/tmp/a"), MappingProxyType({"a": np.float64(0.5)}), (1, 2))]}
    fields = {"file": "/tmp/a", "values": {"a": 0.5}, "steps": [1, 2]}
    assert json.loads(json.dumps(to_json(value))) == {"records": [fields]}


def test_what_json_has_no_value_for_is_no_record() -> None:
    with pytest.raises(TypeError, match="object has no value in JSON"):
        to_json({"a": object()})


def test_a_record_is_written_with_the_version_of_its_format(tmp_path: Path) -> None:
    write_record(tmp_path / "parent.json", Parent("a"))
    assert jsonl.read_json(tmp_path / "parent.json") == {"v": 1, "run": "a", "relation": ""}


def test_of_a_file_of_lines_only_the_damaged_ones_are_lost(tmp_path: Path) -> None:
    path = tmp_path / "lines.jsonl"
    assert [*read_lines(path, Parent)] == []
    path.write_bytes(
        b'{"run": "a"}\n\0\0{"run": "b"}\n{"run": 3}\n[]\nnoise\n{"run": "c\\n"}\n{"ru'
    )
    assert [*read_lines(path, Parent)] == [Parent("a"), Parent("b"), Parent("c")]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(Record.__struct_fields__), json_values))
def test_whatever_a_field_holds_the_record_is_valid(fields: dict[str, Any]) -> None:
    record = decode(**fields)

    assert record is not None
    assert record.id.isprintable()
    assert all(isinstance(word, str) for word in record.words)
    assert record.reward is None or abs(record.reward) <= 1e100
