"""What a run depends on besides its own values, and what of it changed between two attempts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from msgspec import UNSET

from engine.base.typed import to_json
from engine.run.host.environment import (
    environment_snapshot,
    fingerprint,
    git_snapshot,
    hardware_snapshot,
    model_fingerprint,
)
from engine.run.manifest import FILE_PARTS, Difference, FileFacts, Files, Manifest, Surroundings

PARTS = ("environment", "git", "hardware", *FILE_PARTS)


def surroundings(
    cwd: Path,
    config_file: Path | None,
    data: Iterable[Path],
    code: Iterable[Path] = (),
    model: Iterable[Path] = (),
    reward_inputs: Iterable[Path] = (),
    tools: Iterable[Path] = (),
) -> Surroundings:
    """Take a snapshot of software, git, machine, config file, data, reward code, the files that it
    reads, the files of tools, and the initial model. Paths are relative to ``cwd``. Files that are
    not there are left out."""
    return Surroundings(
        environment=environment_snapshot(),
        git=git_snapshot(cwd),
        hardware=hardware_snapshot(),
        recipe_file=_fingerprints(cwd, [config_file] if config_file else []),
        data=_fingerprints(cwd, data),
        code=_fingerprints(cwd, code),
        reward_inputs=_fingerprints(cwd, reward_inputs),
        tools=_fingerprints(cwd, tools),
        model=_fingerprints(cwd, model, model_fingerprint),
    )


def changes(before: Surroundings, after: Surroundings) -> list[Difference]:
    """The differences, by path. A part that ``before`` lacks is not compared."""
    parts = [part for part in PARTS if getattr(before, part) not in ({}, UNSET)]
    old, new = flat(before, parts), flat(after, parts)
    return [
        Difference(".".join(key), old.get(key), new.get(key))
        for key in sorted({*old, *new})
        if old.get(key) != new.get(key)
    ]


def flat(snapshot: Surroundings, parts: Iterable[str] = PARTS) -> dict[tuple[str, ...], object]:
    """The values of a snapshot by their path: ``("environment", "packages", "torch")``."""
    return {
        key: value for part in parts for key, value in _leaves((part,), getattr(snapshot, part))
    }


def changed_files(before: Files, after: Files) -> list[str]:
    """The files that changed or are missing."""
    return [
        path
        for path, facts in before.items()
        if path not in after or after[path].digest != facts.digest
    ]


def edited_files(manifest: Manifest) -> list[str]:
    """The files of the data, the reward code, its inputs, the tools and the base model that changed
    since the launch: a new run uses their present content."""
    cwd = manifest.working_folder
    edited = []
    for part in ("data", "code", "reward_inputs", "tools", "model"):
        before = manifest.files(part)
        take = model_fingerprint if part == "model" else fingerprint
        now = _fingerprints(cwd, map(Path, before), take)
        edited += changed_files(before, now)
    return edited


def edited_complaint(run_id: str, manifest: Manifest) -> str | None:
    """One line about ``edited_files``; None if there are none."""
    paths = edited_files(manifest)
    if not paths:
        return None
    suffix = f" and {len(paths) - 3} more" if len(paths) > 3 else ""
    return (
        f"{', '.join(paths[:3])}{suffix}: changed since run '{run_id}' was launched; a new run "
        "uses the current content"
    )


def _fingerprints(
    cwd: Path, paths: Iterable[Path], take: Callable[[Path], FileFacts] = fingerprint
) -> dict[str, FileFacts]:
    return {str(path): take(cwd / path) for path in paths if (cwd / path).is_file()}


def _leaves(key: tuple[str, ...], value: object) -> Iterator[tuple[tuple[str, ...], object]]:
    if value is UNSET:
        return
    if isinstance(value, FileFacts):
        value = to_json(value)
    if not isinstance(value, dict):
        yield key, value
        return
    for name, item in value.items():
        yield from _leaves((*key, str(name)), item)
