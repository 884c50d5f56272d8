"""Items and the digests that identify them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engine.base.errors import UsageError
from engine.base.typed import convert_record, to_json
from engine.data.contract import FileFacts, write_rows
from engine.measure.folder import AnswerRow
from engine.measure.items import read_conversation_items, read_items

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


@pytest.mark.parametrize("limit", [0, -1])
def test_a_limit_below_1_is_refused(tmp_path: Path, limit: int) -> None:
    write_rows(tmp_path / "val.parquet", [row("q1"), row("q2")], FACTS)
    with pytest.raises(UsageError, match=f"--limit {limit} must be at least 1"):
        read_items(tmp_path / "val.parquet", limit)


@pytest.mark.parametrize("question_id", ["q\u00a01", "a\nb", "zero\u200bwidth", "\x1b[31m"])
def test_an_id_is_the_same_in_the_lines_of_an_evaluation(tmp_path: Path, question_id: str) -> None:
    write_rows(tmp_path / "val.parquet", [row(question_id)], FACTS)
    [item] = read_items(tmp_path / "val.parquet")
    row_of_it = AnswerRow(item.uid, 0, item.sha256, item.prompt_sha256, "", 0, True)
    assert item.uid.isprintable()
    assert convert_record(to_json(row_of_it), AnswerRow) == row_of_it


def test_an_id_that_looks_like_a_row_number_is_not_used_twice(tmp_path: Path) -> None:
    write_rows(tmp_path / "val.parquet", [row("row-1"), row(""), row("q")], FACTS)
    uids = [item.uid for item in read_items(tmp_path / "val.parquet")]
    assert uids == ["row-0", "row-1", "q"]


@pytest.mark.parametrize(
    "columns",
    [
        {"prompt": [["text"]]},
        {"prompt": [[{"text": "x"}]]},
        {"prompt": [[{"role": "user", "content": "x"}]], "extra_info": ["text"]},
    ],
)
def test_a_row_of_another_shape_is_refused_with_its_number(
    tmp_path: Path, columns: dict[str, Any]
) -> None:
    pq.write_table(pa.table(columns), tmp_path / "val.parquet")
    with pytest.raises(UsageError, match="item 'row-0'"):
        read_items(tmp_path / "val.parquet")


def test_a_file_without_rows_is_refused(tmp_path: Path) -> None:
    write_rows(tmp_path / "val.parquet", [], FACTS)
    with pytest.raises(UsageError, match="has no rows"):
        read_items(tmp_path / "val.parquet")


def test_conversations_that_differ_in_the_last_response_share_their_prompt(tmp_path: Path) -> None:
    path = tmp_path / "sft.jsonl"
    question = {"role": "user", "content": "a"}
    replies = [{"role": "assistant", "content": text} for text in ("b", "c")]
    lines = [json.dumps({"messages": [question, reply]}) for reply in replies]
    path.write_text("\n".join(lines))
    first, second = read_conversation_items(path)
    assert first.prompt_sha256 == second.prompt_sha256
    assert first.sha256 != second.sha256
