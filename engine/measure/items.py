"""The items of an evaluation: the prompts of a data file, with digests that identify them."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.base import jsonl
from engine.base.errors import UsageError
from engine.data.contract import Row, read_rows
from engine.data.conversations import read_conversations
from engine.tasks.rubrics import Message


@dataclass(frozen=True)
class Item:
    """One row of a data file.

    ``uid`` is unique in the file. ``prompt_sha256`` identifies the prompt alone, ``sha256`` also
    what its answers are scored against.
    """

    uid: str
    messages: tuple[Message, ...]
    row: Row
    prompt_sha256: str
    sha256: str

    @property
    def asked(self) -> tuple[Message, ...]:
        """The prompt; of a conversation, all but its last message."""
        return self.messages if self.row else self.messages[:-1]


def read_items(path: Path, limit: int | None = None) -> list[Item]:
    """The first ``limit`` items of a parquet file, in its order.

    ``uid`` is the question ID where it is unique, else the row's number. UsageError for a file
    that cannot be read, has no rows or a row without a prompt.
    """
    _require_positive(limit)
    rows = read_rows(path)[:limit]
    if not rows:
        raise UsageError(f"{path}: has no rows, so there is nothing to evaluate")
    names = [_question_id(row) for row in rows]
    counts = Counter(names)
    numbers = [f"row-{number}" for number in range(len(rows))]
    taken = counts.keys() & set(numbers)
    uids = [
        name if name and counts[name] == 1 and name not in taken else number
        for name, number in zip(names, numbers, strict=True)
    ]
    return [_item(path, uid, row) for uid, row in zip(uids, rows, strict=True)]


def read_conversation_items(path: Path, limit: int | None = None) -> list[Item]:
    """The first ``limit`` conversations of an SFT file. ``uid`` is the number of the row, from 0.

    Conversations that differ only in their last response share ``prompt_sha256``.
    """
    _require_positive(limit)
    conversations = read_conversations(path)[:limit]
    if not conversations:
        raise UsageError(f"{path}: has no conversations, so there is nothing to evaluate")
    return [
        Item(f"row-{number}", tuple(messages), {}, digest(messages[:-1]), digest(messages))
        for number, messages in enumerate(conversations)
    ]


def _require_positive(limit: int | None) -> None:
    if limit is not None and limit < 1:
        raise UsageError(f"--limit {limit} must be at least 1")


def _question_id(row: Row) -> str:
    """As the lines of an evaluation keep it: a line of printable text."""
    extra = row.get("extra_info")
    name = extra.get("question_id") if isinstance(extra, dict) else None
    return jsonl.line(str(name or "")) or ""


def _item(path: Path, uid: str, row: Row) -> Item:
    messages, extra = row.get("prompt"), row.get("extra_info") or {}
    if not isinstance(messages, list) or not messages:
        raise UsageError(f"{path}: item '{uid}' has no prompt")
    if not all(isinstance(m, dict) and {"role", "content"} <= m.keys() for m in messages):
        raise UsageError(f"{path}: item '{uid}': prompt is no list of messages (role and content)")
    if not isinstance(extra, dict):
        raise UsageError(f"{path}: item '{uid}': extra_info is not a struct")
    scored = [row.get("data_source"), row.get("reward_model"), extra]
    prompt = [{"role": str(m["role"]), "content": str(m["content"] or "")} for m in messages]
    return Item(uid, tuple(prompt), row, digest(prompt), digest([prompt, scored]))


def digest(value: Any) -> str:
    """SHA-256 of a value as canonical JSON, in hex."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, default=str)
    return hashlib.sha256(text.encode()).hexdigest()
