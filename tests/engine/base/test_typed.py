"""Records of JSON files: what is damaged counts as missing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct

from engine.base.typed import (
    Integer,
    Line,
    Location,
    Moment,
    Number,
    convert_record,
    decode_record,
    read_record,
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
    scores: tuple[Number | None, ...] = ()
    parent: Parent | None = None
    parents: dict[str, Parent] = {}
    value: Any = None


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


@pytest.mark.parametrize("text", [b"", b"[]", b"{", b"3", b'{"id": "a"', b"\xff"])
def test_a_text_that_is_no_object_is_no_record(text: bytes) -> None:
    assert decode_record(text, Record) is None


def test_deep_nesting_is_no_record() -> None:
    assert decode_record(b'{"value": ' + b"[" * 100_000, Record) is None


def test_a_record_without_a_required_field_is_none() -> None:
    assert convert_record({"relation": "fix"}, Parent) is None


def test_a_missing_file_is_no_record(tmp_path: Path) -> None:
    assert read_record(tmp_path / "none.json", Record) is None


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
