"""Rows for a user's own reward function."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from engine.base.errors import UsageError
from engine.data.contract import read_rows
from engine.data.prepare_task import Prepared, PrepareOptions, parse_columns, prepare_task
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


def test_a_ground_truth_that_is_written_as_json_stays_as_it_is_written(tmp_path: Path) -> None:
    [row] = rows(tmp_path, {"prompt": "Why?", "ground_truth": '{"b":1,  "a":2}'})
    assert row["reward_model"]["ground_truth"] == '{"b":1,  "a":2}'


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


class TestColumnsOfOtherNames:
    def prepared(self, folder: Path, *columns: str) -> Prepared:
        data = folder / "quiz.jsonl"
        data.write_text("".join(json.dumps({"ask": q, "reply": "3", "id": 1}) + "\n" for q in "ab"))
        options = PrepareOptions(folder / "out", parse_columns(columns, ROWS))
        return prepare_task(ROWS, [data], [], options)

    def test_can_be_named_by_any_usual_name_of_the_column(self, tmp_path: Path) -> None:
        prepared = self.prepared(tmp_path, "question=ask", "answer=reply")
        [row] = read_rows(tmp_path / "out/train.parquet")
        assert row["reward_model"]["ground_truth"] == "3"
        assert (prepared.unused, prepared.limits) == (["id"], [])

    def test_are_noted_where_one_of_them_may_be_the_truth(self, tmp_path: Path) -> None:
        prepared = self.prepared(tmp_path, "prompt=ask")
        assert prepared.unused == ["reply", "id"]
        [warning] = prepared.limits
        assert warning.startswith("no record has a truth") and "--column truth=COLUMN" in warning

    def test_are_all_asked_for_at_once(self, tmp_path: Path) -> None:
        with pytest.raises(UsageError, match=r"--column prompt=COLUMN \(optional: --column truth="):
            self.prepared(tmp_path)

    def test_cannot_be_two_for_one_value(self, tmp_path: Path) -> None:
        with pytest.raises(UsageError, match="answer=id: the truth is the column reply already"):
            self.prepared(tmp_path, "truth=reply", "answer=id")


def test_prompts_alone_need_no_truth(tmp_path: Path) -> None:
    data = tmp_path / "rows.jsonl"
    data.write_text('{"prompt": "a"}\n{"prompt": "b"}\n')
    assert prepare_task(ROWS, [data], [], PrepareOptions(tmp_path / "out")).limits == []
