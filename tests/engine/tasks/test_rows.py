"""Rows for a user's own reward function."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from engine.base.errors import UsageError
from engine.data.contract import read_rows
from engine.data.prepare_task import PrepareOptions, prepare_task
from engine.tasks.registry import find_format, find_task
from engine.tasks.rows import ROWS

SYSTEM = {"role": "system", "content": "Be brief."}
USER = {"role": "user", "content": "Why?"}
OTHER: dict[str, Any] = {"prompt": "Another?"}


def rows(folder: Path, *records: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows of all records but ``OTHER``, in no order."""
    data = folder / "rows.jsonl"
    data.write_text("".join(json.dumps(record) + "\n" for record in (*records, OTHER)))
    prepare_task(ROWS, [data], [], PrepareOptions(folder / "out"))
    made = [*read_rows(folder / "out/train.parquet"), *read_rows(folder / "out/val.parquet")]
    return [row for row in made if row["extra_info"]["question"] != OTHER["prompt"]]


def test_a_text_becomes_the_message_of_the_user_as_it_is(tmp_path: Path) -> None:
    [row] = rows(tmp_path, {"prompt": "Why?", "ground_truth": "Because", "extra": {"a": [1, "ü"]}})
    assert row["prompt"] == [USER]
    assert row["reward_model"]["ground_truth"] == "Because"
    assert json.loads(row["extra_info"]["extra"]) == {"a": [1, "ü"]}
    assert row["data_source"] == "rows"


def test_messages_stay_as_they_are(tmp_path: Path) -> None:
    [row] = rows(tmp_path, {"prompt": [SYSTEM, USER]})
    assert row["prompt"] == [SYSTEM, USER]
    assert (row["reward_model"]["ground_truth"], row["extra_info"]["extra"]) == ("", "{}")


def test_other_ground_truths_are_json(tmp_path: Path) -> None:
    [row] = rows(tmp_path, {"prompt": "Why?", "ground_truth": {"a": [1.5, None]}})
    assert json.loads(row["reward_model"]["ground_truth"]) == {"a": [1.5, None]}


def test_extra_may_be_the_text_of_json(tmp_path: Path) -> None:
    [row] = rows(tmp_path, {"prompt": "Why?", "extra": '{"a": 1}'})
    assert json.loads(row["extra_info"]["extra"]) == {"a": 1}


@pytest.mark.parametrize(
    ("record", "says"),
    [
        ({"prompt": 3}, "the prompt is neither text nor a list of messages"),
        ({"prompt": []}, "the prompt is neither text nor"),
        ({"prompt": [{"role": "human", "content": "x"}]}, "no role of system, user, assistant"),
        ({"prompt": [{"role": "user", "content": " "}]}, "the user message of the prompt has no"),
        ({"prompt": ""}, "the user message of the prompt has no text"),
        ({"prompt": "x", "extra": [1]}, "extra is not a mapping"),
        ({"prompt": "x", "extra": "{"}, "extra is not JSON"),
    ],
)
def test_a_record_that_is_no_row_is_named(
    record: dict[str, Any], says: str, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=rf"rows.jsonl:1: .*{says}"):
        rows(tmp_path, record)


def test_rows_have_no_scorer() -> None:
    assert find_format("rows") is ROWS
    with pytest.raises(UsageError, match=r"not by a task: name FILE\.py:FUNCTION"):
        find_task("rows")
