"""The one list of held-out questions. Every training file leaves them out."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

from engine.base import jsonl
from engine.base.errors import UsageError
from engine.data.adapters import Example

_MARKS = str.maketrans("\u2018\u2019\u201c\u201d\u2010\u2011\u2013\u2014\u2212", "''\"\"-----")
_MAKE = "make it with python -m engine.data.prepare_sft"


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
            raise UsageError(f"{path}: {json.dumps(entry)} in 'holdout_ids' is no id; {_MAKE}")
    return frozenset(str(entry) for entry in ids)


def asked_again(examples: Iterable[Example], held_out: Collection[str]) -> frozenset[str]:
    """Ids of the examples that ask a held-out question under an id of their own."""
    asked = [(example.question_id, plain_text(example.question)) for example in examples]
    held = {text for name, text in asked if name in held_out}
    return frozenset(name for name, text in asked if text in held and name not in held_out)


def plain_text(text: str) -> str:
    """``text`` without case, white space, invisible characters and the forms of quotes and
    dashes: what two copies of a question may differ in."""
    if not text.isascii():
        composed = unicodedata.normalize("NFKC", text).translate(_MARKS)
        text = "".join(mark for mark in composed if unicodedata.category(mark) != "Cf")
    return " ".join(text.casefold().split())


def write_holdout(path: Path, ids: Sequence[str], seed: int, subset: str) -> None:
    """Write the ids with what they were drawn by."""
    jsonl.write_json(path, {"holdout_ids": list(ids), "seed": seed, "subset": subset})
