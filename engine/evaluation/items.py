"""The items of an evaluation: the prompts of a data file, with digests that identify them."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.base.errors import UsageError
from engine.data.contract import Row, read_rows
from engine.rubrics.prompts import Message


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


def read_items(path: Path, limit: int | None = None) -> list[Item]:
    """The first ``limit`` items of a parquet file, in its order.

    ``uid`` is the question ID where it is unique, else the row's number. UsageError for a file
    that cannot be read, has no rows or a row without a prompt.
    """
    rows = read_rows(path)[:limit]
    if not rows:
        raise UsageError(f"{path}: has no rows, so there is nothing to evaluate")
    names = [str((row.get("extra_info") or {}).get("question_id") or "") for row in rows]
    counts = Counter(names)
    uids = [
        name if name and counts[name] == 1 else f"row-{number}" for number, name in enumerate(names)
    ]
    return [_item(path, uid, row) for uid, row in zip(uids, rows, strict=True)]


def _item(path: Path, uid: str, row: Row) -> Item:
    messages = row.get("prompt")
    if not isinstance(messages, list) or not messages:
        raise UsageError(f"{path}: item '{uid}' has no prompt")
    extra = row.get("extra_info") or {}
    scored = [row.get("data_source"), row.get("reward_model"), extra]
    prompt = [{"role": str(m["role"]), "content": str(m["content"] or "")} for m in messages]
    return Item(uid, tuple(prompt), row, digest(prompt), digest([prompt, scored]))


def digest(value: Any) -> str:
    """SHA-256 of a value as canonical JSON, in hex."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, default=str)
    return hashlib.sha256(text.encode()).hexdigest()
