"""Content hashes of data files."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

_BLOCK = 1 << 16
_SAMPLES = 64


def content_hash(path: Path) -> str:
    """SHA-256 of the file's bytes, in hex."""
    digest = hashlib.sha256()
    with path.open("rb") as handle:
        while block := handle.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def sampled_hash(path: Path) -> str:
    """SHA-256 of the size, of ``_SAMPLES`` blocks at equal distances and of the last block, in hex.

    For weights: reading all of them would take minutes, and training changes every block.
    """
    size = path.stat().st_size
    digest = hashlib.sha256(str(size).encode())
    with path.open("rb") as handle:
        for number in range(_SAMPLES + 1):
            handle.seek(max(0, size - _BLOCK) * number // _SAMPLES)
            digest.update(handle.read(_BLOCK))
    return digest.hexdigest()


def fingerprints(paths: Iterable[Path | None]) -> dict[str, str]:
    """Content hashes of those ``paths`` that exist, by path."""
    return {str(path): content_hash(path) for path in paths if path is not None and path.is_file()}
