"""The list of held-out questions, which no training file contains."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from engine.base import jsonl
from engine.base.errors import UsageError
from engine.data.adapters import Example

_MARKS = str.maketrans("\u2018\u2019\u201c\u201d\u2010\u2011\u2013\u2014\u2212", "''\"\"-----")
_MAKE = "create it with python -P -m engine.data.prepare_sft"


def read_holdout(path: Path | None) -> frozenset[str]:
    """Held-out question ids; none when no file is named. UsageError when it is missing."""
    if path is None:
        return frozenset()
    if not path.is_file():
        raise UsageError(f"holdout {path} does not exist; {_MAKE}")
    record = jsonl.read_json(path)
    ids = record.get("holdout_ids") if record is not None else None
    if not isinstance(ids, list):
        raise UsageError(f"{path}: no list 'holdout_ids'; {_MAKE}")
    for entry in ids:
        if isinstance(entry, bool) or not isinstance(entry, str | int):
            raise UsageError(f"{path}: {json.dumps(entry)} in 'holdout_ids' is not an ID; {_MAKE}")
    return frozenset(str(entry) for entry in ids)


def repeated_ids(examples: Sequence[Example], held_out: Collection[str]) -> frozenset[str]:
    """Return the IDs of examples that repeat a held-out question under another ID."""
    held_out = frozenset(held_out)
    held_texts = {
        plain_text(example.question) for example in examples if example.question_id in held_out
    }
    return frozenset(
        example.question_id
        for example in examples
        if example.question_id not in held_out and plain_text(example.question) in held_texts
    )


def plain_text(text: str) -> str:
    """Return ``text`` without differences between copies of a question.

    These are case, white space, invisible characters, and the forms of quotes and dashes.
    """
    if not text.isascii():
        composed = unicodedata.normalize("NFKC", text).translate(_MARKS)
        text = "".join(mark for mark in composed if unicodedata.category(mark) != "Cf")
    return " ".join(text.casefold().split())


def write_holdout(
    path: Path, ids: Sequence[str], seed: int, subset: str, more: Mapping[str, Any] | None = None
) -> None:
    """Write the IDs with the seed and the subset they were drawn with, and ``more`` about it."""
    jsonl.write_json(
        path, {"holdout_ids": list(ids), "seed": seed, "subset": subset, **(more or {})}
    )
