"""A parquet file that GRPO can train on, and every way it can be unusable."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engine.data.contract import FileFacts, read_facts, read_rows, validate, write_rows
from engine.data.rows import RowOptions, to_row
from engine.errors import UsageError
from engine.rubrics.adapters import Example
from engine.rubrics.prompts import HIGH_LABEL

FACTS = FileFacts("p", "train", True, "holdout.json", 42, {"healthbench": 1}, {"a": "hash"})
EXAMPLE = Example("q1", "Why so?", "A chat.", "Points: 1, Item: x", ("yes", "no"), (1.0, 0.0))


def row(**extra: Any) -> dict[str, Any]:
    made = to_row(EXAMPLE, "healthbench", "open_rubric", RowOptions())
    return {**made, "extra_info": {**made["extra_info"], **extra}}


def problem(path: Path) -> str:
    with pytest.raises(UsageError) as caught:
        validate(path)
    message = str(caught.value)
    assert message.startswith(str(path)) and "\n" not in message
    return message


def test_rows_come_back_with_real_lists_and_structs(tmp_path: Path) -> None:
    path = tmp_path / "train.parquet"
    write_rows(path, [row(), row(question_id="q2")], FACTS)
    first, second = validate(path)
    assert [message["role"] for message in first["prompt"]] == ["system", "user"]
    assert first["extra_info"]["gold_scores"] == [1.0, 0.0]
    assert (first["extra_info"]["index"], second["extra_info"]["index"]) == (0, 1)
    assert first["reward_model"] == {"ground_truth": "", "style": "rubric_for_open"}


def test_the_file_remembers_how_it_was_made(tmp_path: Path) -> None:
    path = tmp_path / "train.parquet"
    write_rows(path, [row()], FACTS)
    assert read_facts(path) == FACTS


def test_a_foreign_file_has_no_facts(tmp_path: Path) -> None:
    path = tmp_path / "foreign.parquet"
    pq.write_table(pa.table({"a": [1]}), path)
    assert read_facts(path) is None


def test_contrastive_prompts_hold_excerpts_and_plain_ones_do_not() -> None:
    def text(on: bool) -> str:
        made = to_row(EXAMPLE, "healthbench", "open_rubric", RowOptions(use_contrastive=on))
        return str(made["prompt"][1]["content"])

    assert HIGH_LABEL in text(True)
    assert HIGH_LABEL not in text(False)


def test_a_missing_file_says_how_to_make_it(tmp_path: Path) -> None:
    assert "engine.data.prepare" in problem(tmp_path / "gone.parquet")


def test_a_file_that_is_not_parquet(tmp_path: Path) -> None:
    path = tmp_path / "text.parquet"
    path.write_text("hello")
    assert "not a parquet file" in problem(path)


def test_a_file_without_rows(tmp_path: Path) -> None:
    path = tmp_path / "empty.parquet"
    write_rows(path, [], FACTS)
    assert "no rows" in problem(path)


def test_prompts_stored_as_text(tmp_path: Path) -> None:
    path = tmp_path / "strings.parquet"
    write_rows(path, [row()], FACTS)
    good = read_rows(path)[0]
    pq.write_table(pa.Table.from_pylist([{**good, "prompt": json.dumps(good["prompt"])}]), path)
    assert "column 'prompt' is string" in problem(path)


@pytest.mark.parametrize("name", ["extra_info", "reward_model"])
def test_structs_stored_as_text(name: str, tmp_path: Path) -> None:
    path = tmp_path / "strings.parquet"
    write_rows(path, [row()], FACTS)
    good = read_rows(path)[0]
    pq.write_table(pa.Table.from_pylist([{**good, name: json.dumps(good[name])}]), path)
    assert f"column '{name}' is string, not a struct" in problem(path)


def test_a_misspelt_column(tmp_path: Path) -> None:
    path = tmp_path / "columns.parquet"
    write_rows(path, [row()], FACTS)
    table = pq.read_table(path).rename_columns(
        ["data_source", "prompts", "reward_model", "extra_info"]
    )
    pq.write_table(table, path)
    assert "no column 'prompt'; did you mean 'prompts'?" in problem(path)


@pytest.mark.parametrize(
    ("extra", "complaint"),
    [
        ({"gold_scores": []}, "no answers/gold_scores for 'q1'"),
        ({"gold_scores": None}, "no answers/gold_scores for 'q1'"),
        ({"answers": []}, "no answers/gold_scores for 'q1'"),
        ({"gold_scores": [1.0]}, "2 answers but 1 gold_scores"),
        ({"gold_scores": [1.0, None]}, "gold_scores of 'q1' hold null"),
        ({"question": "Another?"}, "the prompt does not contain the question"),
        ({"question": ""}, "extra_info has no question"),
    ],
)
def test_a_row_that_cannot_be_trained_on(
    extra: dict[str, Any], complaint: str, tmp_path: Path
) -> None:
    path = tmp_path / "train.parquet"
    write_rows(path, [row(), row(**extra)], FACTS)
    assert f"row 1: {complaint}" in problem(path)


def test_an_empty_prompt(tmp_path: Path) -> None:
    path = tmp_path / "train.parquet"
    write_rows(path, [{**row(), "prompt": []}], FACTS)
    assert "row 0: prompt is empty" in problem(path)
