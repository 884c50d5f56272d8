"""A parquet file that GRPO can train on, and every way a row can be unusable."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engine.base.errors import UsageError
from engine.data.adapters import Example
from engine.data.contract import FileFacts, read_facts, read_rows, row_problem, write_rows
from engine.data.prepare import to_row
from engine.tasks.rubrics import HIGH_LABEL

FACTS = FileFacts("p", "train", True, "holdout.json", 42, {"healthbench": 1}, {"a": "hash"})
EXAMPLE = Example("q1", "Why so?", "A chat.", "Points: 1, Item: x", ("yes", "no"), (1.0, 0.0))


def row(**extra: Any) -> dict[str, Any]:
    made = to_row(EXAMPLE, "healthbench", "open_rubric")
    return {**made, "extra_info": {**made["extra_info"], **extra}}


def test_rows_come_back_with_real_lists_and_structs(tmp_path: Path) -> None:
    path = tmp_path / "train.parquet"
    write_rows(path, [row(), row(question_id="q2")], FACTS)
    first, second = read_rows(path)
    assert [message["role"] for message in first["prompt"]] == ["system", "user"]
    assert first["extra_info"]["gold_scores"] == [1.0, 0.0]
    assert (first["extra_info"]["index"], second["extra_info"]["index"]) == (0, 1)
    assert first["reward_model"] == {"ground_truth": "", "style": "rubric_for_open"}


def test_the_file_remembers_how_it_was_made(tmp_path: Path) -> None:
    path = tmp_path / "train.parquet"
    write_rows(path, [row()], FACTS)
    assert read_facts(path) == FACTS


def test_a_parquet_file_of_another_program_has_no_facts(tmp_path: Path) -> None:
    path = tmp_path / "external.parquet"
    pq.write_table(pa.table({"a": [1]}), path)
    assert read_facts(path) is None


def test_contrastive_prompts_hold_excerpts_and_plain_ones_do_not() -> None:
    def text(on: bool) -> str:
        made = to_row(EXAMPLE, "healthbench", "open_rubric", use_contrastive=on)
        return str(made["prompt"][1]["content"])

    assert HIGH_LABEL in text(True)
    assert HIGH_LABEL not in text(False)


def test_a_missing_file_says_how_to_make_it(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"gone.parquet does not exist.*engine.data.prepare"):
        read_rows(tmp_path / "gone.parquet")


def test_a_file_that_is_not_parquet(tmp_path: Path) -> None:
    path = tmp_path / "text.parquet"
    path.write_text("hello")
    with pytest.raises(UsageError, match=r"text.parquet is not a parquet file"):
        read_rows(path)


def test_a_file_that_cannot_be_written_leaves_no_part_of_itself(tmp_path: Path) -> None:
    in_the_way = tmp_path / "train.parquet"
    in_the_way.mkdir()
    with pytest.raises(IsADirectoryError):
        write_rows(in_the_way, [row()], FACTS)
    assert list(tmp_path.iterdir()) == [in_the_way]


def test_a_sound_row_has_no_problem() -> None:
    assert row_problem(row()) is None


@pytest.mark.parametrize(
    ("extra", "complaint"),
    [
        ({"gold_scores": []}, "no answers/gold_scores for 'q1'"),
        ({"gold_scores": None}, "no answers/gold_scores for 'q1'"),
        ({"answers": []}, "no answers/gold_scores for 'q1'"),
        ({"gold_scores": [1.0]}, "'q1' has 2 answers but 1 gold_scores"),
        ({"answers": ["a"], "gold_scores": [1.0]}, "'q1' has fewer than 2 answers"),
        ({"gold_scores": [1.0, None]}, "'q1' has gold_scores with null"),
        ({"gold_scores": [1.0, math.nan]}, "'q1' has gold_scores with null, NaN"),
        ({"gold_scores": [-math.inf, 1.0]}, "'q1' has gold_scores with null, NaN, inf"),
        ({"question": "Another?"}, "the prompt does not contain the question"),
        ({"question": ""}, "extra_info has no question"),
    ],
)
def test_a_row_that_cannot_be_trained_on(extra: dict[str, Any], complaint: str) -> None:
    assert (row_problem(row(**extra)) or "").startswith(complaint)


def test_an_empty_prompt() -> None:
    assert row_problem({**row(), "prompt": []}) == "prompt is empty"
