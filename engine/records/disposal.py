"""Which checkpoint files can go with their run: only its own, and only what nobody else needs."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine import jsonl
from engine.records.ownership import STAMP, Stamp, checkpoint_folder, read_stamp
from engine.records.step_folders import TRACKER
from engine.runs.rundir import RunDir

_WRITTEN_BY_TRAINING = re.compile(r"global_step_\d+|final")
_TRASH = ".trash-"


@dataclass(frozen=True)
class OwnCheckpoints:
    """The checkpoint files of one run: ``entries`` are those that may go.

    ``bytes`` is what lies there, also when ``kept_because`` says why none of it may be deleted.
    """

    folder: Path | None = None
    entries: tuple[Path, ...] = ()
    bytes: int = 0
    kept_because: str | None = None

    @property
    def freed(self) -> int:
        """Bytes that deleting ``entries`` would free."""
        return self.bytes if self.entries else 0


def own_checkpoints(run: RunDir, others: Iterable[RunDir]) -> OwnCheckpoints:
    """What a run saved and nobody among ``others`` uses."""
    folder = checkpoint_folder(run.read_manifest())
    if folder is not None:
        folder = Path(os.path.normpath(folder))
    entries = () if folder is None or folder.is_symlink() else tuple(_entries(folder))
    if folder is None or not entries:
        return OwnCheckpoints(folder)
    total = sum(bytes_of(entry) for entry in entries)
    if (reason := _not_its_own(run, folder) or _used(folder, others)) is not None:
        return OwnCheckpoints(folder, (), total, reason)
    return OwnCheckpoints(folder, entries, total)


def remove_checkpoints(own: OwnCheckpoints) -> None:
    """Delete the files; what else lies in their folder stays. OSError when something remains.

    The tracker goes first: without it no step counts as complete, so an interruption leaves
    nothing that could be mistaken for a checkpoint. The owner's stamp goes last.
    """
    if own.folder is None or not own.entries:
        return
    (own.folder / TRACKER).unlink(missing_ok=True)
    for entry in own.entries:
        trash = entry
        if not entry.name.startswith(_TRASH):
            trash = entry.rename(entry.with_name(f"{_TRASH}{entry.name}"))
        shutil.rmtree(trash)
    (own.folder / STAMP).unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        own.folder.rmdir()


def bytes_of(path: Path) -> int:
    """Bytes of all files at or below ``path``; links count as themselves."""
    try:
        status = path.lstat()
    except FileNotFoundError:
        return 0
    if not stat.S_ISDIR(status.st_mode):
        return status.st_size
    return sum(_sizes(path))


def _sizes(folder: Path) -> Iterator[int]:
    for parent, _, files in os.walk(folder):
        for name in files:
            with contextlib.suppress(FileNotFoundError):
                yield (Path(parent) / name).lstat().st_size


def _entries(folder: Path) -> Iterator[Path]:
    """The step folders and the final model, those half deleted included."""
    try:
        paths = sorted(folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return
    for path in paths:
        known = _WRITTEN_BY_TRAINING.fullmatch(path.name.removeprefix(_TRASH))
        if known and path.is_dir() and not path.is_symlink():
            yield path


def _not_its_own(run: RunDir, folder: Path) -> str | None:
    stamp = read_stamp(folder)
    if stamp is None:
        return f"no {STAMP} says which run they belong to"
    if stamp.same_run(Stamp.of(run, run.read_manifest())):
        return None
    return f"they belong to run '{stamp.run}'"


def _used(folder: Path, others: Iterable[RunDir]) -> str | None:
    """Why another run needs ``folder``: its manifest names a path there, whatever for."""
    inside = os.path.realpath(folder)
    # Thousands of manifests are searched as bytes, and only those that can match are parsed.
    needle = json.dumps(folder.name, ensure_ascii=False)[1:-1].encode()
    for other in others:
        try:
            text = other.manifest.read_bytes()
        except OSError:
            continue
        if needle in text and _names(jsonl.parse_line(text), inside):
            return f"run '{other.id}' uses them"
    return None


def _names(manifest: dict[str, Any] | None, inside: str) -> bool:
    """Whether a manifest names a path in ``inside``; one that cannot be read may."""
    if manifest is None:
        return True
    cwd, name = str(manifest.get("cwd") or "."), Path(inside).name
    values = (text.partition("=")[2] or text for text in _texts(manifest) if name in text)
    home = str(Path.home())
    paths = (home + value[1:] if value.startswith("~/") else value for value in values)
    return any(_is_within(Path(cwd, path), inside) for path in paths)


def _is_within(path: Path, inside: str) -> bool:
    try:
        resolved = os.path.realpath(path)
    except ValueError:
        return False  # No path at all: it holds a zero byte.
    return resolved == inside or resolved.startswith(f"{inside}{os.sep}")


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield str(key)
            yield from _texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)
