"""SFT conversations: JSONL with ``messages``; parquet with these, or with prompt and response."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from engine.base import jsonl
from engine.base.errors import UsageError
from engine.data.contract import Row, open_parquet
from engine.rubrics.prompts import Message

Conversation = list[Message]
_BATCH = 1000


COLUMN = "messages"
"""The key of a line and the column of a row that hold a conversation."""


def read_conversations(path: Path) -> list[Conversation]:
    """The conversations of a file, each ending with a message of the assistant.

    UsageError names file, line (or row, from 0) and fault.
    """
    if not path.is_file():
        raise UsageError(f"{path}: no such file; prepare the SFT data first")
    return [
        _checked(f"{path}:{number}", (jsonl.parse_line(line) or {}).get(COLUMN))
        for number, line in read_lines(path)
    ]


def read_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """The lines of a JSONL file that are not blank, from 1; the rows of a parquet file from 0, as
    such lines. UsageError for a parquet file that holds no conversations."""
    if path.suffix == ".parquet":
        yield from _parquet_lines(path)
        return
    with path.open("rb") as handle:
        for number, line in enumerate(handle, start=1):
            if line.strip():
                yield number, line


def holds_conversations(columns: Collection[str]) -> bool:
    """Whether rows with these columns are for SFT: messages, or prompt and response."""
    return COLUMN in columns or {"prompt", "response"} <= {*columns}


def _parquet_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    file = open_parquet(path)
    if not holds_conversations(file.schema_arrow.names):
        raise UsageError(f"{path}: has neither a column messages nor prompt and response")
    number = 0
    for batch in file.iter_batches(batch_size=_BATCH):
        for row in batch.to_pylist():
            record = {**row, COLUMN: row.get(COLUMN) or _of_prompt(row)}
            yield number, json.dumps(record, default=str).encode()
            number += 1


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
