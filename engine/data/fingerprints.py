"""Content hashes of data files, and questions that two files share."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

from engine.data.contract import read_rows


def content_hash(path: Path) -> str:
    """SHA-256 of the file's bytes, in hex."""
    digest = hashlib.sha256()
    with path.open("rb") as handle:
        while block := handle.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def fingerprints(paths: Iterable[Path | None]) -> dict[str, str]:
    """Content hashes of those ``paths`` that exist, by path."""
    return {str(path): content_hash(path) for path in paths if path is not None and path.is_file()}


def question_ids(path: Path) -> set[str]:
    """Ids of the questions in a GRPO parquet file."""
    return {str(row["extra_info"]["question_id"]) for row in read_rows(path)}


def overlap(left: Path, right: Path) -> set[str]:
    """Questions two parquet files share; training and validation must share none."""
    return question_ids(left) & question_ids(right)
