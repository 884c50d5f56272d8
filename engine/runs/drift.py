"""Whether the files of a run's own reward function, and those it reads, are still what the run was
launched with."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from engine.base import files, jsonl

_Signature = tuple[int, int, int] | None


class CodeWatch:
    """Looks at the files again and again; one that was not touched is not read."""

    def __init__(self, manifest: Mapping[str, Any], cwd: Path) -> None:
        inputs = manifest.get("reward_inputs") or {}
        files = {**(manifest.get("code") or {}), **inputs}
        self._inputs = {cwd / path for path in inputs}
        self._hashes: dict[Path, str | None] = {
            cwd / path: facts["sha256"] for path, facts in files.items()
        }
        self._launched = dict(self._hashes)
        self._signatures: dict[Path, _Signature] = {}

    def changes(self) -> Iterator[Path]:
        """The files whose content is another than at the last look; at first: at the launch."""
        for path, known in self._hashes.items():
            signature = _signature(path)
            if path in self._signatures and self._signatures[path] == signature:
                continue
            self._signatures[path] = signature
            now = _hash(path)
            if now != known:
                self._hashes[path] = now
                yield path

    def describe(self, path: Path) -> str:
        """What became of a file since the launch, at the last look."""
        if self._hashes[path] == self._launched[path]:
            return f"{path} is again what it was at the launch"
        what = "changed" if self._hashes[path] else "is gone"
        if path in self._inputs:
            return (
                f"{path}, which the reward reads, {what} since the launch; it is read where it is"
            )
        return f"{path} {what} since the launch; the run keeps its copy"


def _signature(path: Path) -> _Signature:
    try:
        status = os.stat(path)  # noqa: PTH116 - asked every few seconds for the life of a run
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


def _hash(path: Path) -> str | None:
    try:
        return hashlib.sha256(files.read_regular(path, jsonl.LARGEST_FILE)).hexdigest()
    except OSError:
        return None
