"""The reward function that a run was launched with: its files' hashes, and the copies kept."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from engine.records.environment import fingerprint
from engine.runs.rundir import RunDir

Files = Mapping[str, Mapping[str, Any]]
"""Fingerprints by path; the function's own file is the first."""


def code_values(manifest: Mapping[str, Any]) -> dict[str, str]:
    """``{"reward function rw.py": sha256}``, by path in the function's own folder: what a
    configuration says besides its keys."""
    files: Files = manifest.get("code") or {}
    names = _names(files)
    return {f"reward function {names[path]}": facts["sha256"] for path, facts in files.items()}


def executed_code(run: RunDir, files: Files, cwd: Path) -> dict[str, Any]:
    """The fingerprints of what a new attempt would execute: the run's copies, where it has them."""
    found = {}
    for path, name in _names(files).items():
        copy = run.code / name
        source = copy if copy.is_file() else cwd / path
        if source.is_file():
            found[path] = fingerprint(source)
    return found


def edited_code(files: Files, cwd: Path) -> Iterator[str]:
    """The files that are gone or other than they were at the launch."""
    for path, facts in files.items():
        now = fingerprint(cwd / path)["sha256"] if (cwd / path).is_file() else None
        if now != facts["sha256"]:
            yield path


def _names(files: Files) -> dict[str, Path]:
    """Each file relative to the folder of the first, as its copy is called."""
    folder = Path(next(iter(files), "")).parent
    inside = (path for path in files if Path(path).is_relative_to(folder))
    return {path: Path(path).relative_to(folder) for path in inside}
