"""SFT conversations in files, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engine.base.errors import UsageError
from engine.data.conversations import read_conversations, read_lines

TURNS = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
TALK = '{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}\n'


def test_blank_lines_between_conversations_are_skipped(tmp_path: Path) -> None:
    path = tmp_path / "sft.jsonl"
    path.write_text(f"{TALK}\n{TALK}")
    assert len(read_conversations(path)) == 2


@pytest.mark.row("H23")
@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("{", "not a JSON object"),
        ('{"messages": [{"role": "assistant", "content": ["a"]}]}', "a message whose content is a"),
        ('{"messages": [{"role": "assistant", "content": null}]}', "a message without role or"),
        ('{"messages": []}', "the list of messages is empty"),
        ('{"messages": [{"role": "user"}]}', "a message without role or content"),
        ('{"messages": [{"role": "user", "content": "a"}]}', "the last message is by .user., and"),
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


def asked(text: str) -> tuple[str, str]:
    return "user", text


CALL = {"id": "1", "function": {"name": "weather", "arguments": '{"town": "Ulm"}'}}
CALLED = '<tool_call>\n{"name": "weather", "arguments": {"town": "Ulm"}}\n</tool_call>'


@pytest.mark.parametrize(
    ("record", "turns"),
    [
        (
            {"conversations": [{"from": "human", "value": "a"}, {"from": "gpt", "value": "b"}]},
            [asked("a"), ("assistant", "b")],
        ),
        (
            {
                "system": "s",
                "dialog": [{"role": "User", "content": "a"}, {"role": "model", "content": "b"}],
            },
            [("system", "s"), asked("a"), ("assistant", "b")],
        ),
        (
            {"instruction": "Translate.", "input": "Haus", "output": "house"},
            [asked("Translate.\n\nHaus"), ("assistant", "house")],
        ),
        (
            {"instruction": "Name a tree.", "input": "", "output": "oak", "history": [["x", "y"]]},
            [asked("x"), ("assistant", "y"), asked("Name a tree."), ("assistant", "oak")],
        ),
        (
            {"instruction": "Who built it?", "context": "Ann built it.", "response": "Ann"},
            [asked("Who built it?\n\nAnn built it."), ("assistant", "Ann")],
        ),
        (
            {
                "prompt": [{"role": "user", "content": "a"}],
                "completion": [{"role": "assistant", "content": "b"}],
            },
            [asked("a"), ("assistant", "b")],
        ),
        (
            {
                "messages": [
                    {"role": "user", "content": [{"type": "text", "text": "a"}]},
                    {"role": "assistant", "content": [{"type": "text", "text": "b"}]},
                ]
            },
            [asked("a"), ("assistant", "b")],
        ),
        (
            {"prompt": "a", "chosen": TURNS, "rejected": TURNS},
            [asked("a"), ("assistant", "b")],
        ),
        ({"prompt": "a", "chosen": "b", "rejected": "c"}, [asked("a"), ("assistant", "b")]),
        (
            {
                "messages": [
                    {"role": "user", "content": "a"},
                    {"role": "assistant", "content": None, "tool_calls": [CALL]},
                    {"role": "tool", "tool_call_id": "1", "content": "21"},
                    {"role": "assistant", "tool_calls": [CALL], "content": "Again:"},
                ]
            },
            [
                asked("a"),
                ("assistant", CALLED),
                ("tool", "21"),
                ("assistant", f"Again:\n{CALLED}"),
            ],
        ),
        (
            {
                "conversations": [
                    {"from": "human", "value": "a"},
                    {"from": "function_call", "value": '{"name": "now", "arguments": {}}'},
                    {"from": "observation", "value": "noon"},
                    {"from": "gpt", "value": "It is noon."},
                ]
            },
            [
                asked("a"),
                (
                    "assistant",
                    '<tool_call>\n{"name": "now", "arguments": {}}\n</tool_call>',
                ),
                ("tool", "noon"),
                ("assistant", "It is noon."),
            ],
        ),
    ],
)
@pytest.mark.parametrize("suffix", ["jsonl", "json", "parquet"])
def test_conversations_of_other_tools_are_read_as_they_are(
    tmp_path: Path, record: dict[str, Any], turns: list[tuple[str, str]], suffix: str
) -> None:
    path = tmp_path / f"talk.{suffix}"
    if suffix == "parquet":
        pq.write_table(pa.Table.from_pylist([record]), path)
    else:
        path.write_text(json.dumps([record] if suffix == "json" else record))
    [conversation] = read_conversations(path)
    assert [(message["role"], message["content"]) for message in conversation] == turns


def test_parquet_without_responses_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "val.parquet"
    pq.write_table(pa.Table.from_pylist([{"prompt": "a"}]), path)
    with pytest.raises(UsageError, match=r"0: no messages \(it has prompt\)"):
        read_conversations(path)


def test_lines_and_rows_are_numbered_as_editors_and_tables_do(tmp_path: Path) -> None:
    (tmp_path / "sft.jsonl").write_text(f"\n{TALK}{TALK}")
    pq.write_table(pa.Table.from_pylist([{"prompt": "a", "response": "b"}]), tmp_path / "a.parquet")
    assert [number for number, _ in read_lines(tmp_path / "sft.jsonl")] == [2, 3]
    assert [number for number, _ in read_lines(tmp_path / "a.parquet")] == [0]
