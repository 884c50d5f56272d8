"""Which checkpoint files can go with their run: only its own, and only what nobody else needs."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import orjson

from engine.base import files, jsonl
from engine.checkpoints.ownership import STAMP, Stamp, checkpoint_folder, moved_aside, read_stamp
from engine.checkpoints.step_folders import TRACKER, WantedFiles, complete_steps, step_of
from engine.runs.manifest import values_of
from engine.runs.rundir import RunDir

_WRITTEN_BY_TRAINING = re.compile(r"global_step_\d+|final")
_TRASH = ".trash-"


@dataclass(frozen=True)
class OwnCheckpoints:
    """The checkpoint files of one run: ``entries`` are those that may go.

    ``bytes`` is what lies there, also when ``kept_because`` says why none of it may be deleted.
    ``inherited`` is the newest step of an earlier run that stays. ``moved`` is where a later run
    put what this one saved; it stays too.
    """

    folder: Path | None = None
    entries: tuple[Path, ...] = ()
    bytes: int = 0
    kept_because: str | None = None
    inherited: int = 0
    moved: Path | None = None

    @property
    def freed(self) -> int:
        """Bytes that deleting ``entries`` would free."""
        return self.bytes if self.entries else 0


def own_checkpoints(run: RunDir, others: Iterable[RunDir]) -> OwnCheckpoints:
    """What a run saved and nobody among ``others`` uses."""
    folder = checkpoint_folder(run.read_manifest())
    if folder is not None:
        folder = Path(os.path.normpath(folder))
    if folder is None:
        return OwnCheckpoints()
    moved = moved_aside(folder, Stamp.of(run, run.read_manifest()))
    inherited = _inherited(run, folder)
    entries = () if folder.is_symlink() else tuple(_entries(folder, run, inherited))
    if not entries:
        return OwnCheckpoints(folder, moved=moved)
    total = sum(bytes_of(entry) for entry in entries)
    if (reason := _not_its_own(run, folder) or _used(folder, others)) is not None:
        return OwnCheckpoints(folder, (), total, reason, moved=moved)
    return OwnCheckpoints(folder, entries, total, inherited=inherited, moved=moved)


def remove_checkpoints(own: OwnCheckpoints) -> None:
    """Delete the files; what else lies in their folder stays. OSError when something remains.

    The tracker goes first, or back to the last step that stays: no later one counts as complete
    then, so an interruption leaves nothing that could be mistaken for a checkpoint. The owner's
    stamp goes last.
    """
    if own.folder is None or not own.entries:
        return
    if own.inherited:
        files.write_atomic(own.folder / TRACKER, str(own.inherited))
    else:
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
        return _on_disk(status)
    return sum(_sizes(path))


def _sizes(folder: Path) -> Iterator[int]:
    for parent, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                yield _on_disk((Path(parent) / name).lstat())


def _on_disk(status: os.stat_result) -> int:
    """Bytes that deleting a file frees: holes are none, and a small file may have no block."""
    return min(status.st_size, max(4096, status.st_blocks * 512))


def _inherited(run: RunDir, folder: Path) -> int:
    """The newest whole step of an earlier run that this one built on; 0: there is none."""
    stamp, manifest = read_stamp(folder), run.read_manifest()
    if stamp is None or not stamp.same_run(Stamp.of(run, manifest)):
        return 0
    whole = complete_steps(folder, wanted=WantedFiles.by_config(values_of(manifest)))
    return max((step for step in whole if step <= stamp.inherited), default=0)


def _entries(folder: Path, run: RunDir, inherited: int) -> Iterator[Path]:
    """The step folders after ``inherited`` and the run's final model, those half deleted too."""
    try:
        paths = sorted(folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return
    for path in paths:
        known = _WRITTEN_BY_TRAINING.fullmatch(path.name.removeprefix(_TRASH))
        if 0 < (step_of(path) or 0) <= inherited:
            continue
        # A run that failed early has not replaced the model that was there before it.
        foreign = path.name == "final" and _not_its_own(run, path) is not None
        if known and not foreign and path.is_dir() and not path.is_symlink():
            yield path


def _not_its_own(run: RunDir, folder: Path) -> str | None:
    stamp = read_stamp(folder)
    if stamp is None:
        return f"no {STAMP} says which run they belong to"
    if stamp.same_run(Stamp.of(run, run.read_manifest())):
        return f"they are those of {stamp.directory}" if stamp.lies_elsewhere(run) else None
    return f"they belong to run '{stamp.run}'"


def _used(folder: Path, others: Iterable[RunDir]) -> str | None:
    """Why another run needs ``folder``: its manifest names a path there, whatever for."""
    # Thousands of manifests say nearly the same, and every path is resolved once.
    is_within = cache(partial(_is_within, os.path.realpath(folder)))
    for other in others:
        try:
            manifest = _parse(files.read_regular(other.manifest, jsonl.LARGEST_FILE))
        except FileNotFoundError:
            continue
        except OSError as error:
            return f"run '{other.id}' may use them ({error.strerror})"
        if manifest is None:
            return f"run '{other.id}' may use them (its manifest is damaged)"
        cwd = str(manifest.get("cwd") or ".")
        if any(is_within(cwd, text) for text in _texts(manifest)):
            return f"run '{other.id}' uses them"
    return None


def _parse(text: bytes) -> dict[str, Any] | None:
    try:
        manifest = orjson.loads(text)
    except orjson.JSONDecodeError:
        return jsonl.parse_line(text)
    return manifest if isinstance(manifest, dict) else None


def _is_within(inside: str, cwd: str, text: str) -> bool:
    """Whether a value, or what a ``key=value`` sets, is a path that leads into ``inside``."""
    values = (text, text.partition("=")[2]) if "=" in text else (text,)
    return any(_leads_into(inside, cwd, value) for value in values)


def _leads_into(inside: str, cwd: str, value: str) -> bool:
    path = os.path.expanduser(value)  # noqa: PTH111 - Path's fails without a home
    try:
        resolved = os.path.realpath(os.path.join(cwd, path))  # noqa: PTH118 - of thousands
    except ValueError:
        return False  # No path at all: it holds a zero byte.
    return resolved == inside or resolved.startswith(f"{inside}{os.sep}")


def _texts(manifest: dict[str, Any]) -> set[str]:
    """Every text in a manifest, keys included."""
    found: set[str] = set()
    left: list[Any] = [manifest]
    while left:
        value = left.pop()
        if isinstance(value, str):
            found.add(value)
        elif isinstance(value, dict):
            found.update(value)
            left.extend(value.values())
        elif isinstance(value, list):
            left.extend(value)
    return found
