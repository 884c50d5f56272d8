"""SFT conversations in files, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engine.base.errors import UsageError
from engine.data.conversations import read_conversations, read_lines

TALK = '{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}\n'


def test_blank_lines_between_conversations_are_skipped(tmp_path: Path) -> None:
    path = tmp_path / "sft.jsonl"
    path.write_text(f"{TALK}\n{TALK}")
    assert len(read_conversations(path)) == 2


@pytest.mark.row("H23")
@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("{", "not a JSON object with a list 'messages'"),
        ('{"messages": [{"role": "assistant", "content": ["a"]}]}', "a message whose 'content' is"),
        ('{"messages": [{"role": "assistant", "content": null}]}', "a message whose 'content' is"),
        ('{"messages": []}', "not a JSON object with a list 'messages'"),
        ('{"messages": [{"role": "user"}]}', "a message without 'role' or 'content'"),
        ('{"messages": [{"role": "user", "content": "a"}]}', "the last message is not"),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, line: str, complaint: str) -> None:
    path = tmp_path / "sft.jsonl"
    path.write_text(TALK + line)
    with pytest.raises(UsageError, match=rf"sft\.jsonl:2: {complaint}"):
        read_conversations(path)


def test_a_missing_file_is_named() -> None:
    with pytest.raises(UsageError, match=r"nowhere\.jsonl: no such file"):
        read_conversations(Path("nowhere.jsonl"))


@pytest.mark.row("V07")
@pytest.mark.parametrize(
    "row",
    [
        {"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]},
        {"prompt": [{"role": "user", "content": "a"}], "response": "b"},
        {"prompt": "a", "response": "b"},
    ],
)
def test_parquet_holds_messages_or_prompt_and_response(tmp_path: Path, row: dict[str, Any]) -> None:
    path = tmp_path / "sft.parquet"
    pq.write_table(pa.Table.from_pylist([row]), path)
    [conversation] = read_conversations(path)
    assert [message["content"] for message in conversation] == ["a", "b"]


def test_parquet_without_responses_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "val.parquet"
    pq.write_table(pa.Table.from_pylist([{"prompt": "a"}]), path)
    with pytest.raises(UsageError, match="neither a column messages nor prompt and response"):
        read_conversations(path)


def test_lines_and_rows_are_numbered_as_editors_and_tables_do(tmp_path: Path) -> None:
    (tmp_path / "sft.jsonl").write_text(f"\n{TALK}{TALK}")
    pq.write_table(pa.Table.from_pylist([{"prompt": "a", "response": "b"}]), tmp_path / "a.parquet")
    assert [number for number, _ in read_lines(tmp_path / "sft.jsonl")] == [2, 3]
    assert [number for number, _ in read_lines(tmp_path / "a.parquet")] == [0]
