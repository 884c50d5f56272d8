"""What a run depends on besides its own values, and what of it changed between two attempts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from engine.run.host.environment import (
    environment_snapshot,
    fingerprint,
    git_snapshot,
    hardware_snapshot,
    model_fingerprint,
)

Snapshot = Mapping[str, Any]
PARTS = (
    *("environment", "git", "hardware", "recipe_file"),
    *("data", "code", "reward_inputs", "tools", "model"),
)


def surroundings(
    cwd: Path,
    config_file: Path | None,
    data: Iterable[Path],
    code: Iterable[Path] = (),
    model: Iterable[Path] = (),
    reward_inputs: Iterable[Path] = (),
    tools: Iterable[Path] = (),
) -> dict[str, Any]:
    """Take a snapshot of software, git, machine, config file, data, reward code, the files that it
    reads, the files of tools, and the initial model. Paths are relative to ``cwd``. The parts
    ``code``, ``reward_inputs``, ``tools`` and ``model`` are missing if there are no such files."""
    files = {"code": code, "reward_inputs": reward_inputs, "tools": tools}
    taken = {part: _fingerprints(cwd, paths) for part, paths in files.items()}
    base = {str(path): model_fingerprint(cwd / path) for path in model if (cwd / path).is_file()}
    return {
        "environment": environment_snapshot(),
        "git": git_snapshot(cwd),
        "hardware": hardware_snapshot(),
        "recipe_file": _fingerprints(cwd, [config_file] if config_file else []),
        "data": _fingerprints(cwd, data),
        **{part: prints for part, prints in taken.items() if prints},
        **({"model": base} if base else {}),
    }


def changes(before: Snapshot, after: Snapshot) -> list[dict[str, Any]]:
    """The differences, e.g. ``{"what": "environment.packages.torch", "before": .., "after": ..}``.

    A part that ``before`` lacks is not compared.
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
    """The files of ``part`` ("recipe_file", "data", ...) that changed or are missing."""
    old, new = before.get(part) or {}, after.get(part) or {}
    return [path for path in old if digest(new.get(path) or {}) != digest(old[path])]


def edited_files(manifest: Snapshot) -> list[str]:
    """The files of the data, the reward code, its inputs, the tools and the base model that changed
    since the launch: a new run uses their present content."""
    cwd = Path(str(manifest.get("cwd") or "."))
    parts = ("data", "code", "reward_inputs", "tools", "model")
    before = {part: manifest.get(part) or {} for part in parts}
    of_model = ((path, model_fingerprint) for path in before["model"])
    of_other_parts = ((path, fingerprint) for part in parts[:-1] for path in before[part])
    now = {
        path: take(cwd / path)
        for path, take in (*of_other_parts, *of_model)
        if (cwd / path).is_file()
    }
    return [path for part in parts for path in changed_files(before, {part: now}, part)]


def edited_complaint(run_id: str, manifest: Snapshot) -> str | None:
    """One line about ``edited_files``; None if there are none."""
    paths = edited_files(manifest)
    if not paths:
        return None
    suffix = f" and {len(paths) - 3} more" if len(paths) > 3 else ""
    return (
        f"{', '.join(paths[:3])}{suffix}: changed since run '{run_id}' was launched; a new run "
        "uses the current content"
    )


def digest(facts: Mapping[str, Any]) -> str | None:
    """The hash that identifies the content of a file in a snapshot."""
    return facts.get("sha256") or facts.get("sampled_sha256")


def _fingerprints(cwd: Path, paths: Iterable[Path]) -> dict[str, Any]:
    return {str(path): fingerprint(cwd / path) for path in paths if (cwd / path).is_file()}


def _leaves(key: tuple[str, ...], value: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
    if not isinstance(value, Mapping):
        yield key, value
        return
    for name, item in value.items():
        yield from _leaves((*key, str(name)), item)
