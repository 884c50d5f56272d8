"""SFT conversations: JSONL with ``messages``; parquet with these, or with prompt and response."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from engine.base import jsonl
from engine.base.errors import UsageError
from engine.data.contract import Row, read_rows
from engine.rubrics.prompts import Message

Conversation = list[Message]


def read_conversations(path: Path) -> list[Conversation]:
    """The conversations of a file, each ending with a message of the assistant.

    UsageError names file, line (or row, from 1) and fault.
    """
    if not path.is_file():
        raise UsageError(f"{path}: no such file; prepare the SFT data first")
    is_parquet = path.suffix == ".parquet"
    return [
        _checked(f"{path}:{number}", record)
        for number, record in (_parquet_rows(path) if is_parquet else _json_lines(path))
    ]


def _json_lines(path: Path) -> Iterator[tuple[int, Any]]:
    for number, line in enumerate(path.read_bytes().splitlines(), start=1):
        if line.strip():
            record = jsonl.parse_line(line)
            yield number, None if record is None else record.get("messages")


def _parquet_rows(path: Path) -> Iterator[tuple[int, Any]]:
    for number, row in enumerate(read_rows(path), start=1):
        if "messages" not in row and not {"prompt", "response"} <= row.keys():
            raise UsageError(f"{path}: has neither a column messages nor prompt and response")
        yield number, row.get("messages") or _of_prompt(row)


def _of_prompt(row: Row) -> list[Any] | None:
    """A prompt, as text or messages, and its response as one conversation."""
    prompt, response = row.get("prompt"), row.get("response")
    if isinstance(prompt, str):
        prompt = [{"role": "user", "content": prompt}]
    if not isinstance(prompt, list):
        return None
    return [*prompt, {"role": "assistant", "content": response}]


def _checked(where: str, messages: Any) -> Conversation:
    if not isinstance(messages, list) or not messages:
        raise UsageError(f"{where}: not a JSON object with a list 'messages'")
    for message in messages:
        if not isinstance(message, dict) or not {"role", "content"} <= message.keys():
            raise UsageError(f"{where}: a message without 'role' or 'content'")
        if not isinstance(message["content"], str):
            raise UsageError(f"{where}: a message whose 'content' is not text")
    if messages[-1]["role"] != "assistant":
        raise UsageError(f"{where}: the last message is not the assistant's")
    return [{"role": str(m["role"]), "content": m["content"]} for m in messages]
