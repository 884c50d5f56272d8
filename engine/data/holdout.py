"""The one list of held-out questions. Every training file leaves them out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from engine import jsonl
from engine.errors import UsageError


def read_holdout(path: Path | None) -> frozenset[str]:
    """Held-out question ids; empty when there is no file yet."""
    if path is None or not path.is_file():
        return frozenset()
    record = jsonl.read_json(path)
    ids = record.get("holdout_ids") if record is not None else None
    if not isinstance(ids, list):
        raise UsageError(f"{path}: no list 'holdout_ids'; make it with engine.data.prepare_sft")
    return frozenset(str(entry) for entry in ids)


def write_holdout(path: Path, ids: Sequence[str], seed: int, subset: str) -> None:
    """Write the ids with what they were drawn by."""
    jsonl.write_json(path, {"holdout_ids": list(ids), "seed": seed, "subset": subset})
