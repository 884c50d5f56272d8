"""Watch the files of a run's reward function, those that it reads, and those of its tools, for
changes since the launch."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from engine.base import files, jsonl


class CodeWatch:
    """Checks the files repeatedly; reads only those that were touched."""

    def __init__(self, manifest: Mapping[str, Any], cwd: Path) -> None:
        inputs, tools = manifest.get("reward_inputs") or {}, manifest.get("tools") or {}
        files = {**(manifest.get("code") or {}), **inputs, **tools}
        self._inputs = {cwd / path for path in inputs}
        self._tools = {cwd / path for path in tools}
        self._hashes: dict[Path, str | None] = {
            cwd / path: facts["sha256"] for path, facts in files.items()
        }
        self._launched = dict(self._hashes)
        self._versions: dict[Path, tuple[int, int, int] | None] = {}

    def changes(self) -> Iterator[Path]:
        """The files whose content differs from the last call; at first, from the launch."""
        for path, before in self._hashes.items():
            version = files.version_of(path)
            if path in self._versions and self._versions[path] == version:
                continue
            self._versions[path] = version
            now = _hash(path)
            if now != before:
                self._hashes[path] = now
                yield path

    def describe(self, path: Path) -> str:
        """How the file differs from the launch, by the last call of ``changes``."""
        if self._hashes[path] == self._launched[path]:
            return f"{path} has the content of the launch again"
        change = "changed" if self._hashes[path] else "is gone"
        if path in self._inputs:
            return f"{path}, which the reward reads, {change} since the launch; there is no copy"
        if path in self._tools:
            return f"{path}, which declares tools, {change} since the launch; there is no copy"
        return f"{path} {change} since the launch; the run uses its copy"


def _hash(path: Path) -> str | None:
    try:
        return hashlib.sha256(files.read_regular(path, jsonl.LARGEST_FILE)).hexdigest()
    except OSError:
        return None
