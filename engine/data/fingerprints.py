"""Content hashes of data files."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path


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
