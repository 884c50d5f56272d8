"""The one list of held-out questions. Every training file leaves them out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from engine import jsonl
from engine.errors import UsageError

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
    return frozenset(str(entry) for entry in ids)


def write_holdout(path: Path, ids: Sequence[str], seed: int, subset: str) -> None:
    """Write the ids with what they were drawn by."""
    jsonl.write_json(path, {"holdout_ids": list(ids), "seed": seed, "subset": subset})
