"""Columns and filters that are kept between two starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.base import jsonl
from engine.base.errors import UsageError
from grubrics_tui.settings.state_files import ListView, ListViewFile, check_filter_name


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "list.json"


def test_without_a_file_the_default_columns_and_no_filter(path: Path) -> None:
    assert ListViewFile(path).load() == ListView()


def test_columns_and_filters_are_there_at_the_next_start(path: Path) -> None:
    ListViewFile(path).save_columns(["step", "note"])
    ListViewFile(path).save_filter("bad", "state:failed")
    assert ListViewFile(path).load() == ListView(("step", "note"), {"bad": "state:failed"})


def test_a_change_keeps_what_another_tui_has_saved_meanwhile(path: Path) -> None:
    first, second = ListViewFile(path), ListViewFile(path)
    first.save_filter("a", "x")
    second.save_filter("b", "y")
    assert first.remove_filter("a").filters == {"b": "y"}


def test_fields_of_a_later_version_stay(path: Path) -> None:
    jsonl.write_json(path, {"v": 2, "widths": [3]})
    ListViewFile(path).save_columns(["step"])
    kept = {"v": 2, "widths": [3], "columns": ["step"], "filters": {}}
    assert jsonl.read_json(path) == kept


@pytest.mark.parametrize(
    "text", ["", "[]", '{"columns": 3, "filters": 4}', '{"filters": {"a": 1, "b\\u001b": "x"}}']
)
def test_a_damaged_file_counts_as_empty(path: Path, text: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    assert ListViewFile(path).load() == ListView()


@pytest.mark.parametrize("name", ["", "two words", "a=b", "x" * 31])
def test_a_name_that_a_command_line_could_not_tell_is_refused(name: str) -> None:
    with pytest.raises(UsageError):
        check_filter_name(name, {})
