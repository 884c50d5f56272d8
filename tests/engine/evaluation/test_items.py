"""Items and the digests that identify them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from engine.base.errors import UsageError
from engine.data.contract import FileFacts, write_rows
from engine.evaluation.items import read_items

FACTS = FileFacts("tiny", "val", False, None, 1)


def row(question_id: str, question: str = "Why?", gold: float = 0.5) -> dict[str, Any]:
    return {
        "data_source": "tiny",
        "prompt": [{"role": "user", "content": question}],
        "reward_model": {"ground_truth": "", "style": "rubric"},
        "extra_info": {
            "question_id": question_id,
            "question": question,
            "answers": ["a", "b"],
            "gold_scores": [gold, 0.0],
        },
    }


def test_items_keep_the_order_and_ids_of_the_file(tmp_path: Path) -> None:
    write_rows(tmp_path / "val.parquet", [row("q2"), row("q1")], FACTS)
    assert [item.uid for item in read_items(tmp_path / "val.parquet")] == ["q2", "q1"]


def test_ids_that_are_missing_or_repeated_become_row_numbers(tmp_path: Path) -> None:
    write_rows(tmp_path / "val.parquet", [row("q"), row("q"), row("")], FACTS)
    uids = [item.uid for item in read_items(tmp_path / "val.parquet")]
    assert uids == ["row-0", "row-1", "row-2"]


def test_a_changed_gold_score_is_another_item_with_the_same_prompt(tmp_path: Path) -> None:
    write_rows(tmp_path / "a.parquet", [row("q")], FACTS)
    write_rows(tmp_path / "b.parquet", [row("q", gold=0.9)], FACTS)
    a, b = (read_items(tmp_path / name)[0] for name in ("a.parquet", "b.parquet"))
    assert a.prompt_sha256 == b.prompt_sha256
    assert a.sha256 != b.sha256


def test_a_limit_takes_the_first_items(tmp_path: Path) -> None:
    write_rows(tmp_path / "val.parquet", [row(f"q{n}") for n in range(5)], FACTS)
    assert len(read_items(tmp_path / "val.parquet", limit=2)) == 2


def test_a_file_without_rows_is_refused(tmp_path: Path) -> None:
    write_rows(tmp_path / "val.parquet", [], FACTS)
    with pytest.raises(UsageError, match="has no rows"):
        read_items(tmp_path / "val.parquet")
