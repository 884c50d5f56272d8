"""The conversations of an SFT recipe, and the parquet that verl reads."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from engine.base import jsonl
from engine.base.errors import UsageError


def read_conversations(path: Path) -> list[list[dict[str, str]]]:
    """The ``messages`` of a JSONL file. Raises UsageError that names file, line and fault."""
    if not path.is_file():
        raise UsageError(f"data.train_file={path}: no such file; prepare the SFT data first")
    conversations = []
    for number, line in enumerate(path.read_bytes().splitlines(), start=1):
        if line.strip():
            conversations.append(_messages(path, number, line))
    return conversations


def _messages(path: Path, number: int, line: bytes) -> list[dict[str, str]]:
    record = jsonl.parse_line(line)
    messages = None if record is None else record.get("messages")
    if not isinstance(messages, list) or not messages:
        raise UsageError(f"{path}:{number}: not a JSON object with a list 'messages'")
    for message in messages:
        if not isinstance(message, dict) or not {"role", "content"} <= message.keys():
            raise UsageError(f"{path}:{number}: a message without 'role' or 'content'")
        if not isinstance(message["content"], str):
            raise UsageError(f"{path}:{number}: a message whose 'content' is no text")
    if messages[-1]["role"] != "assistant":
        raise UsageError(f"{path}:{number}: the last message is not the assistant's")
    return [{"role": str(m["role"]), "content": m["content"]} for m in messages]


def write_parquet(conversations: list[list[dict[str, str]]], path: Path) -> Path:
    pq.write_table(pa.table({"messages": conversations}), path)
    return path
