"""The folders that W&B writes: one for each start of a run, offline or online."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.base import jsonl
from engine.logs.formats.protobuf import integer, messages, text
from engine.logs.formats.wandb import WandbLog

_NAME = re.compile(r"(offline-)?run-\d{8}_\d{6}-.+")
_LEVELS = 3
_HEAD = 256 * 1024
_AT_ONCE = 4 * 1024 * 1024
_QUIET_S = 60.0

# The numbers of the fields in wandb_internal.proto.
_RUN, _EXIT = 17, 18
_PROJECT, _GROUP, _DISPLAY_NAME = 3, 6, 8


@dataclass(frozen=True)
class WandbFolder:
    """One folder, such as ``wandb/offline-run-20260101_120000-abc``."""

    path: Path
    log: Path
    is_offline: bool
    run_id: str
    name: str = ""
    project: str = ""
    group: str = ""

    @property
    def marker(self) -> Path:
        """The empty file that ``wandb sync`` writes."""
        return self.log.with_name(f"{self.log.name}.synced")

    @property
    def is_synced(self) -> bool:
        """Whether ``wandb sync`` has uploaded all of the log. Online runs have no such mark."""
        try:
            return self.marker.stat().st_mtime >= self.log.stat().st_mtime
        except OSError:
            return False

    @property
    def is_open(self) -> bool:
        """Whether a process seems to write the log: it changed lately, and the run has no end."""
        try:
            age = time.time() - self.log.stat().st_mtime
        except OSError:
            return False
        return age < _QUIET_S and not _has_end(self.log)

    def to_json(self) -> dict[str, Any]:
        return {
            "path": str(self.path),
            "id": self.run_id,
            "name": self.name,
            "project": self.project,
            "group": self.group,
            "offline": self.is_offline,
            "synced": self.is_synced if self.is_offline else None,
        }


class EndWatch:
    """Follows a log to the exit code that W&B records when its run ends."""

    def __init__(self, log: Path) -> None:
        self._reader = WandbLog(log)

    def poll(self) -> int | None:
        """Return the exit code once the log has it."""
        for record in self._reader.records(_AT_ONCE):
            with suppress(ValueError):
                for ending in messages(record, _EXIT):
                    return integer(ending, 1)
        return None


def find_wandb_folders(roots: Iterable[Path]) -> list[WandbFolder]:
    """Return the folders in ``roots`` and up to two levels below, each once, oldest first.

    A root may be a link. Links below it are not followed: what they lead to is not to be deleted.
    """
    found: dict[Path, WandbFolder] = {}
    for root in roots:
        for path in _folders(root, _LEVELS):
            if not path.is_symlink() and (folder := read_wandb_folder(path)) is not None:
                found[path.resolve()] = folder
    return sorted(found.values(), key=lambda each: each.path.name.removeprefix("offline-"))


def _folders(root: Path, levels: int) -> Iterator[Path]:
    """Yield ``root`` and the folders below it, but none inside the folder of a run."""
    yield root
    if not levels or _NAME.fullmatch(root.name):
        return
    for entry in _entries(root):
        if entry.is_dir(follow_symlinks=False):
            yield from _folders(Path(entry.path), levels - 1)


def read_wandb_folder(path: Path) -> WandbFolder | None:
    """Return the folder of one start of a run; None for any other path."""
    matched = _NAME.fullmatch(path.name)
    log = next(iter(sorted(path.glob("*.wandb"))), None) if matched else None
    if matched is None or log is None:
        return None
    run_id = log.name.removeprefix("run-").removesuffix(".wandb")
    given = WandbFolder(path, log, matched[1] is not None, jsonl.line(run_id) or "?")
    head = next(_values(log, _RUN, _HEAD), None)
    if head is None:
        return given
    name, project, group = (
        jsonl.line(text(head, field)) or "" for field in (_DISPLAY_NAME, _PROJECT, _GROUP)
    )
    return WandbFolder(path, log, given.is_offline, given.run_id, name, project, group)


def wandb_roots(runs: Path, env: Mapping[str, str], cwd: Path) -> list[Path]:
    """Where runs of W&B are: in the runs, in ``$WANDB_DIR`` and in ``./wandb``."""
    inside = sorted(Path(entry.path, "wandb") for entry in _entries(runs))
    inside = [folder for folder in inside if not folder.is_symlink()]
    given = env.get("WANDB_DIR")
    return [*inside, *([Path(given)] if given else []), cwd / "wandb"]


def _entries(folder: Path) -> Iterator[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            yield from entries
    except OSError:
        return


def _has_end(log: Path) -> bool:
    return next(_values(log, _EXIT), None) is not None


def _values(log: Path, number: int, at_most: int | None = None) -> Iterator[bytes]:
    """The messages with that number in the records of a log, or in its first bytes."""
    reader = WandbLog(log)
    while records := reader.records(at_most or _AT_ONCE):
        for record in records:
            try:
                yield from messages(record, number)
            except ValueError:
                continue
        if at_most is not None:
            return
