"""Find and delete the checkpoint files of a run: only its own, and only those no other run uses."""

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

from engine.base import files, jsonl
from engine.run.checkpoints.ownership import (
    STAMP,
    Stamp,
    checkpoint_folder,
    moved_aside,
    read_stamp,
)
from engine.run.checkpoints.step_folders import TRACKER, WantedFiles, complete_steps, step_of
from engine.run.run import Run

_WRITTEN_BY_TRAINING = re.compile(r"global_step_\d+|final")
_TRASH = ".trash-"


@dataclass(frozen=True)
class OwnCheckpoints:
    """The checkpoint files of one run: ``entries`` are those that may be deleted.

    ``bytes`` is the size of the run's files, even if ``kept_because`` says why none of them may be
    deleted. ``inherited`` is the newest step of an earlier run, which is kept. ``moved`` is the
    folder to which a later run moved this run's checkpoints; it is kept too.
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


def own_checkpoints(run: Run, others: Iterable[Run]) -> OwnCheckpoints:
    """Return what ``run`` saved, and which of it none of ``others`` uses."""
    manifest = run.read_manifest()
    folder = checkpoint_folder(manifest)
    if folder is None:
        return OwnCheckpoints()
    folder = Path(os.path.normpath(folder))
    moved = moved_aside(folder, Stamp.of(run, manifest))
    inherited = _inherited(run, folder)
    entries = () if folder.is_symlink() else tuple(_entries(folder, run, inherited))
    if not entries:
        return OwnCheckpoints(folder, moved=moved)
    total = sum(bytes_of(entry) for entry in entries)
    if (reason := _not_its_own(run, folder) or _used(folder, others)) is not None:
        return OwnCheckpoints(folder, (), total, reason, moved=moved)
    return OwnCheckpoints(folder, entries, total, inherited=inherited, moved=moved)


def remove_checkpoints(own: OwnCheckpoints) -> None:
    """Delete the entries; other files in their folder are kept. OSError when an entry remains.

    The tracker is removed first, or set to the last step that is kept. No later step counts as
    complete then, so an interrupted deletion leaves no folder that looks like a checkpoint. The
    owner's stamp is removed last.
    """
    if own.folder is None or not own.entries:
        return
    remove_steps(own.folder, own.entries, own.inherited)
    (own.folder / STAMP).unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        own.folder.rmdir()


def remove_steps(folder: Path, entries: Iterable[Path], last: int) -> None:
    """Delete entries of a checkpoint folder whose last step is then ``last``; 0 for none."""
    if last:
        files.write_atomic(folder / TRACKER, str(last))
    else:
        (folder / TRACKER).unlink(missing_ok=True)
    for entry in entries:
        trash = entry
        if not entry.name.startswith(_TRASH):
            trash = entry.rename(entry.with_name(f"{_TRASH}{entry.name}"))
        shutil.rmtree(trash)


def bytes_of(path: Path) -> int:
    """Bytes of all files at or below ``path``; links count as themselves."""
    try:
        status = path.lstat()
    except FileNotFoundError:
        return 0
    if not stat.S_ISDIR(status.st_mode):
        return _on_disk(status)
    total = 0
    for parent, _, names in os.walk(path):
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                total += _on_disk((Path(parent) / name).lstat())
    return total


def _on_disk(status: os.stat_result) -> int:
    """Bytes that deleting a file frees: holes do not count, and a small file may have no block."""
    return min(status.st_size, max(4096, status.st_blocks * 512))


def _inherited(run: Run, folder: Path) -> int:
    """The newest complete step of an earlier run that this run started from, or 0."""
    stamp, manifest = read_stamp(folder), run.read_full_manifest()
    if stamp is None or not stamp.same_run(Stamp.of(run, manifest)):
        return 0
    steps = complete_steps(folder, wanted=WantedFiles.by_config(manifest.values))
    return max((step for step in steps if step <= stamp.inherited), default=0)


def _entries(folder: Path, run: Run, inherited: int) -> Iterator[Path]:
    """The step folders after ``inherited`` and the run's final model, also if half deleted."""
    try:
        paths = sorted(folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return
    for path in paths:
        by_training = _WRITTEN_BY_TRAINING.fullmatch(path.name.removeprefix(_TRASH))
        if 0 < (step_of(path) or 0) <= inherited:
            continue
        # A run that failed early has not replaced the model that was there before it.
        of_other_run = path.name == "final" and _not_its_own(run, path) is not None
        if by_training and not of_other_run and path.is_dir() and not path.is_symlink():
            yield path


def _not_its_own(run: Run, folder: Path) -> str | None:
    stamp = read_stamp(folder)
    if stamp is None:
        return f"no {STAMP} names the run they belong to"
    if stamp.same_run(Stamp.of(run, run.read_manifest())):
        return f"they belong to {stamp.directory}" if stamp.lies_elsewhere(run) else None
    return f"they belong to run '{stamp.run}'"


def _used(folder: Path, others: Iterable[Run]) -> str | None:
    """Why another run needs ``folder``: its manifest or config names a path in it."""
    # Thousands of manifests name nearly the same paths; each is resolved once.
    is_within = cache(partial(_is_within, os.path.realpath(folder)))
    for other in others:
        try:
            texts = manifest_texts(other)
        except FileNotFoundError:
            continue
        except OSError as error:
            return f"run '{other.id}' may use them ({error.strerror})"
        if texts is None:
            return f"run '{other.id}' may use them (its manifest is damaged)"
        if any(is_within(texts.folder, text) for text in texts.texts):
            return f"run '{other.id}' uses them"
    return None


@dataclass(frozen=True)
class ManifestTexts:
    """Every text of a manifest and its config, with the folder where relative paths begin."""

    folder: str
    texts: frozenset[str]


def manifest_texts(run: Run) -> ManifestTexts | None:
    """The texts of all of a manifest and its config, damaged fields too; None where one is damaged
    as a whole.

    OSError for one that cannot be read.
    """
    content = jsonl.parse_line(files.read_regular(run.manifest_file, jsonl.LARGEST_FILE))
    settings: dict[str, object] | None = {}
    if os.path.lexists(run.settings_file):
        settings = jsonl.parse_line(files.read_regular(run.settings_file, jsonl.LARGEST_FILE))
    if content is None or settings is None:
        return None
    texts = frozenset(_texts_of([content, settings]))
    return ManifestTexts(str(content.get("cwd") or "."), texts)


def _is_within(inside: str, cwd: str, text: str) -> bool:
    """Whether ``text``, or the value of a ``key=value``, is a path into ``inside``."""
    values = (text, text.partition("=")[2]) if "=" in text else (text,)
    return any(_leads_into(inside, cwd, value) for value in values)


def _leads_into(inside: str, cwd: str, value: str) -> bool:
    path = os.path.expanduser(value)  # noqa: PTH111 - Path's fails without a home
    try:
        resolved = os.path.realpath(os.path.join(cwd, path))  # noqa: PTH118 - of thousands
    except ValueError:
        return False  # A text with a zero byte is not a path.
    return resolved == inside or resolved.startswith(f"{inside}{os.sep}")


def _texts_of(value: object) -> set[str]:
    """Every text in a JSON value, keys included."""
    texts: set[str] = set()
    stack: list[object] = [value]
    while stack:
        value = stack.pop()
        if isinstance(value, str):
            texts.add(value)
        elif isinstance(value, dict):
            texts.update(value)
            stack.extend(value.values())
        elif isinstance(value, list):
            stack.extend(value)
    return texts
