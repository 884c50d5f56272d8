"""Whose checkpoint folder it is: a stamp in the folder, so that two runs never mix their steps.

Before an attempt's trainer starts, its supervisor claims the folder. From then on every step
folder in it was saved by the run that the stamp names or is what that run started from; what the
attempt does not build on lies in ``replaced-by-<run>-<attempt>/``, with the stamp of the run that
saved it. Nothing is ever deleted.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from engine.base import files, locks, typed
from engine.base.errors import UsageError
from engine.base.typed import Integer, Line, Moment
from engine.run.checkpoints.step_folders import (
    TRACKER,
    WantedFiles,
    complete_steps,
    step_of,
    written_steps,
)
from engine.run.manifest import FullManifest, Manifest
from engine.run.run import Run
from engine.run.state import observed_state
from engine.run.trust import is_own_folder, is_signed, sign

STAMP = "grubrics_run.json"
_REPLACED = "replaced-by-"


class Stamp(Struct, frozen=True):
    """The run that saves into a folder.

    ``run`` and ``created`` (its launch, Unix seconds) identify it and are only compared for
    equality; ``directory`` says where it was. ``fingerprint`` is that of its configuration. The
    steps up to ``inherited`` are those of an earlier run, on which this one built. ``unknown``: the
    last step in the folder whose author is unknown, with this user's signature.
    """

    run: Line
    created: Moment
    directory: Line
    fingerprint: Line = ""
    inherited: Integer = 0
    unknown: Integer | None = None
    signature: str | None = None

    @classmethod
    def of(cls, run: Run, manifest: Manifest) -> Stamp:
        return cls(
            manifest.id or run.id,  # Its folder may have been renamed since.
            manifest.created or 0.0,
            str(run.path.absolute()),
            manifest.fingerprint or "",
        )

    def same_run(self, other: Stamp) -> bool:
        return (self.run, self.created) == (other.run, other.created)

    def lies_elsewhere(self, run: Run) -> bool:
        """Whether the run that stamped the folder is there and not in ``run``: that is a copy."""
        original = Run(Path(self.directory))
        manifest = original.read_manifest()
        return (
            not manifest.is_empty
            and self.same_run(Stamp.of(original, manifest))
            and os.path.realpath(original.path) != os.path.realpath(run.path)
        )

    def is_active(self) -> bool:
        """Whether the run that stamped the folder has not ended."""
        run = Run(Path(self.directory))
        manifest = run.read_manifest()
        return (
            not manifest.is_empty
            and self.same_run(Stamp.of(run, manifest))
            and not observed_state(run).has_ended
        )


def checkpoint_folder(manifest: Manifest) -> Path | None:
    """Where a run saves, absolute; None when its manifest names no folder."""
    given = manifest.checkpoint_dir
    return manifest.working_folder.absolute() / Path(given).expanduser() if given else None


def read_stamp(folder: Path) -> Stamp | None:
    """The stamp in ``folder``, or None when there is none that can be read."""
    return typed.read_record(folder / STAMP, Stamp)


def objection(folder: Path, myself: Stamp, asked: bool = False) -> str | None:
    """Why the run ``myself`` must not save into ``folder``, or None.

    ``asked``: whether its config names a step of this folder to resume from.
    """
    stamp = read_stamp(folder)
    if stamp is None or stamp.same_run(myself):
        return None
    if stamp.is_active():
        return f"{folder} is being written by run '{stamp.run}'"
    if asked or stamp.fingerprint == myself.fingerprint or not holds_checkpoints(folder):
        return None
    return f"{folder} holds checkpoints of run '{stamp.run}', which has another configuration"


def holds_checkpoints(folder: Path) -> bool:
    """Whether a run has left anything that another one could overwrite."""
    return bool(written_steps(folder)) or (folder / "final").is_dir()


def claim(run: Run) -> str | None:
    """Make the run's checkpoint folder its own and ready for its newest attempt.

    Returns what was set aside, in one line. Raises UsageError when the folder is another run's.
    """
    manifest = run.read_full_manifest()
    folder, stamp = checkpoint_folder(manifest), Stamp.of(run, manifest)
    if folder is None:
        return None
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with locks.held_file(folder / ".lock"):
            _refuse_copy(run, folder, stamp)
            step = _base_step(folder, manifest, stamp)
            moved = _set_aside(folder, step, f"{_REPLACED}{run.id}-{manifest.attempts[-1].number}")
            unknown = _unknown_steps(folder, step)
            signed = replace(
                stamp,
                inherited=_inherited(folder, step, stamp),
                unknown=unknown,
                signature=sign(_claim(folder, unknown)),
            )
            typed.write_record(folder / STAMP, signed)
    except OSError as error:
        raise UsageError(f"{error.filename or folder}: {error.strerror}") from error
    return moved


def loaded_checkpoint(manifest: FullManifest) -> Path | None:
    """The step that the newest attempt begins with; None when it begins with a model alone."""
    values, folder = manifest.values, checkpoint_folder(manifest)
    given = manifest.attempts[-1].from_ or values.get("training.resume_from")
    if given is None and values.get("trainer.resume_mode") == "resume_path":
        given = values.get("trainer.resume_from_path")
    if given is None and values.get("trainer.resume_mode") == "auto" and folder is not None:
        steps = complete_steps(folder, wanted=WantedFiles.by_config(values))
        return steps[max(steps)] if steps else None
    return manifest.working_folder / str(given) if given else None


def is_known(checkpoint: Path) -> bool:
    """Whether a step was saved by a run of this user, and nobody else could have changed it.

    Loading any other may execute what is in it.
    """
    step = step_of(checkpoint) or 0
    return step > _unknown_steps(checkpoint.parent, step) and is_own_folder(checkpoint)


def _unknown_steps(folder: Path, step: int) -> int:
    """Of the steps up to ``step``; all of them in a folder without this user's signature."""
    stamp = read_stamp(folder)
    if stamp is None or stamp.unknown is None:
        return step
    is_ours = is_signed(_claim(folder, stamp.unknown), stamp.signature)
    return min(stamp.unknown, step) if is_ours else step


def _claim(folder: Path, unknown: int) -> str:
    return f"{folder.resolve()} {unknown}"


def _refuse_copy(run: Run, folder: Path, stamp: Stamp) -> None:
    """Refuse a folder in use by a copy: same run by its files, but with other processes."""
    found = read_stamp(folder)
    if found and found.same_run(stamp) and found.lies_elsewhere(run) and found.is_active():
        raise UsageError(f"{folder} is being written by run '{found.run}' in {found.directory}")


def asked_step(folder: Path, values: Mapping[str, object], cwd: Path) -> int | None:
    """The step of ``folder`` that a config names to resume from, or None."""
    key = "trainer.resume_from_path"
    if values.get("trainer.resume_mode") != "resume_path":
        key = "training.resume_from"
    given = values.get(key)
    path = (cwd / str(given)).resolve() if given else None
    return step_of(path) if path is not None and path.parent == folder.resolve() else None


def _base_step(folder: Path, manifest: FullManifest, stamp: Stamp) -> int:
    """The step of ``folder`` that the newest attempt resumes from; 0 without one."""
    attempt = manifest.attempts[-1]
    if attempt.from_ is not None and attempt.from_step is not None:
        found = read_stamp(folder)
        if found is not None and not found.same_run(stamp):
            raise UsageError(taken(folder, stamp, found))
        return attempt.from_step
    values = manifest.values
    asked = asked_step(folder, values, manifest.working_folder)
    complaint = objection(folder, stamp, asked is not None)
    if complaint is not None:
        raise UsageError(complaint)
    if values.get("trainer.resume_mode") == "auto":
        return max(complete_steps(folder, wanted=WantedFiles.by_config(values)), default=0)
    return asked or 0


def _inherited(folder: Path, step: int, stamp: Stamp) -> int:
    """The last of the remaining steps in ``folder`` that an earlier run saved."""
    before = read_stamp(folder)
    own = before is not None and before.same_run(stamp)
    return min(step, before.inherited) if before is not None and own else step


def taken(folder: Path, myself: Stamp, owner: Stamp) -> str:
    """Why the run ``myself`` cannot use a folder that another run has taken over."""
    moved = moved_aside(folder, myself)
    moved_to = f"; the checkpoints of '{myself.run}' were moved to {moved}" if moved else ""
    return f"{folder} now belongs to run '{owner.run}'{moved_to}"


def moved_aside(folder: Path, myself: Stamp) -> Path | None:
    """The folder to which a later run moved the checkpoints of the run ``myself``, or None.

    Folders with steps that the run itself discarded, when it resumed from an earlier one, do not
    count.
    """
    folders = [
        path
        for path in sorted(folder.glob(f"{_REPLACED}*"))
        if not path.name.startswith(f"{_REPLACED}{myself.run}-")
    ]
    stamps = [read_stamp(path) for path in folders]
    mine = [p for p, s in zip(folders, stamps, strict=True) if s is not None and s.same_run(myself)]
    return mine[-1] if mine else None


def _set_aside(folder: Path, step: int, name: str) -> str | None:
    """Move the steps after ``step`` to the folder ``name``; verl's tracker is changed first."""
    later = {number: path for number, path in written_steps(folder).items() if number > step}
    tracker = folder / TRACKER
    if step > 0:
        files.write_atomic(tracker, str(step))
    elif tracker.exists() and not later:
        tracker.unlink()
    if not later:
        return None
    target = _unused(folder / name)
    target.mkdir()
    if step == 0 and tracker.exists():
        tracker.rename(target / TRACKER)
    if (folder / STAMP).is_file():
        files.write_atomic(target / STAMP, files.read_regular(folder / STAMP, 1 << 20).decode())
    for path in later.values():
        path.rename(target / path.name)
    steps = ", ".join(str(number) for number in later)
    return f"checkpoints of other steps than this attempt's ({steps}) were moved to {target}"


def _unused(path: Path) -> Path:
    names = (path.with_name(f"{path.name}-{number}") for number in range(2, 10_000))
    return path if not path.exists() else next(name for name in names if not name.exists())
