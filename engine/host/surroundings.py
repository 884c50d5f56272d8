"""What a run depends on besides its own values, and what of it changed between two attempts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from engine.host.environment import (
    environment_snapshot,
    fingerprint,
    git_snapshot,
    hardware_snapshot,
    model_fingerprint,
)

Snapshot = Mapping[str, Any]
PARTS = ("environment", "git", "hardware", "recipe_file", "data", "code", "reward_inputs", "model")


def surroundings(
    cwd: Path,
    recipe_file: Path,
    data: Iterable[Path],
    code: Iterable[Path] = (),
    model: Iterable[Path] = (),
    reward_inputs: Iterable[Path] = (),
) -> dict[str, Any]:
    """Software, git, machine, recipe file, data, and the files of the recipe's own reward function,
    of what that reads, and of the model it starts from as they are now; relative to ``cwd``.
    Without such files there is no part ``code``, ``reward_inputs`` or ``model``."""
    own, inputs = _fingerprints(cwd, code), _fingerprints(cwd, reward_inputs)
    base = {str(path): model_fingerprint(cwd / path) for path in model if (cwd / path).is_file()}
    return {
        "environment": environment_snapshot(),
        "git": git_snapshot(cwd),
        "hardware": hardware_snapshot(),
        "recipe_file": _fingerprints(cwd, [recipe_file]),
        "data": _fingerprints(cwd, data),
        **({"code": own} if own else {}),
        **({"reward_inputs": inputs} if inputs else {}),
        **({"model": base} if base else {}),
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
    """The files of ``part`` ("recipe_file", "data", ...) whose content is another or gone."""
    old, new = before.get(part) or {}, after.get(part) or {}
    return [path for path in old if digest(new.get(path) or {}) != digest(old[path])]


def edited_files(manifest: Snapshot) -> list[str]:
    """The data files, and the files of the reward function, of what it reads and of the base
    model, that are not what they were when the run was launched: a new run trains on what they
    are now."""
    cwd = Path(str(manifest.get("cwd") or "."))
    parts = ("data", "code", "reward_inputs", "model")
    before = {part: manifest.get(part) or {} for part in parts}
    of_model = ((path, model_fingerprint) for path in before["model"])
    others = ((path, fingerprint) for part in parts[:-1] for path in before[part])
    now = {path: look(cwd / path) for path, look in (*others, *of_model) if (cwd / path).is_file()}
    return [path for part in parts for path in changed_files(before, {part: now}, part)]


def edited_complaint(run_id: str, manifest: Snapshot) -> str | None:
    """One line about ``edited_files``; None where there are none."""
    found = edited_files(manifest)
    if not found:
        return None
    more = f" and {len(found) - 3} more" if len(found) > 3 else ""
    return (
        f"{', '.join(found[:3])}{more}: not what run '{run_id}' was launched with; a new run uses "
        "the content of now"
    )


def digest(facts: Mapping[str, Any]) -> str | None:
    """What says whether a file of a snapshot is the same."""
    return facts.get("sha256") or facts.get("sampled_sha256")


def _fingerprints(cwd: Path, paths: Iterable[Path]) -> dict[str, Any]:
    return {str(path): fingerprint(cwd / path) for path in paths if (cwd / path).is_file()}


def _leaves(key: tuple[str, ...], value: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
    if not isinstance(value, Mapping):
        yield key, value
        return
    for name, item in value.items():
        yield from _leaves((*key, str(name)), item)
