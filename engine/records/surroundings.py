"""What a run depends on besides its own values, and what of it changed between two attempts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from engine.records.environment import (
    environment_snapshot,
    fingerprint,
    git_snapshot,
    hardware_snapshot,
)

Snapshot = Mapping[str, Any]
PARTS = ("environment", "git", "hardware", "recipe_file", "data", "code")


def surroundings(
    cwd: Path, recipe_file: Path, data: Iterable[Path], code: Iterable[Path] = ()
) -> dict[str, Any]:
    """Software, git, machine, recipe file, data and the files of the recipe's own reward function
    as they are now; relative to ``cwd``. Without such a function there is no part ``code``."""
    own = _fingerprints(cwd, code)
    return {
        "environment": environment_snapshot(),
        "git": git_snapshot(cwd),
        "hardware": hardware_snapshot(),
        "recipe_file": _fingerprints(cwd, [recipe_file]),
        "data": _fingerprints(cwd, data),
        **({"code": own} if own else {}),
    }


def changes(before: Snapshot, after: Snapshot) -> list[dict[str, Any]]:
    """What differs, e.g. ``{"what": "environment.packages.torch", "before": .., "after": ..}``.

    A part that ``before`` does not have at all says nothing.
    """
    parts = [part for part in PARTS if part in before]
    old, new = flat(before, parts), flat(after, parts)
    return [
        {"what": ".".join(key), "before": old.get(key), "after": new.get(key)}
        for key in sorted({*old, *new})
        if old.get(key) != new.get(key)
    ]


def flat(snapshot: Snapshot, parts: Iterable[str]) -> dict[tuple[str, ...], Any]:
    """The values of a snapshot by their path: ``("environment", "packages", "torch")``."""
    return {key: value for part in parts for key, value in _leaves((part,), snapshot.get(part))}


def changed_files(before: Snapshot, after: Snapshot, part: str) -> list[str]:
    """The files of ``part`` ("recipe_file" or "data") whose content is another or gone."""
    old, new = before.get(part) or {}, after.get(part) or {}
    return [path for path in old if (new.get(path) or {}).get("sha256") != old[path]["sha256"]]


def _fingerprints(cwd: Path, paths: Iterable[Path]) -> dict[str, Any]:
    return {str(path): fingerprint(cwd / path) for path in paths if (cwd / path).is_file()}


def _leaves(key: tuple[str, ...], value: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
    if not isinstance(value, Mapping):
        yield key, value
        return
    for name, item in value.items():
        yield from _leaves((*key, str(name)), item)
