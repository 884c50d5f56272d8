"""Find the checkpoints of a run. An incomplete folder never counts as its newest one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from engine.base import jsonl
from engine.run.checkpoints.disposal import bytes_of, own_checkpoints
from engine.run.checkpoints.model_folder import missing_parts
from engine.run.checkpoints.ownership import (
    Stamp,
    checkpoint_folder,
    moved_aside,
    read_stamp,
    taken,
)
from engine.run.checkpoints.step_folders import (
    TRACKER,
    WantedFiles,
    complete_steps,
    step_of,
    step_problem,
    tracked_step,
    written_steps,
)
from engine.run.kinds import find_kind
from engine.run.manifest import FullManifest, value_of
from engine.run.run import Run
from engine.run.state import RunState, recorded_state

# File systems and the supervisor read different clocks.
_CLOCK_SLACK_S = 5.0


@dataclass(frozen=True)
class CheckpointReport:
    """``path`` is the newest complete checkpoint of the run, or None; ``message`` is one line.

    ``moved`` is the folder to which a later run moved this run's checkpoints.
    """

    complete: bool
    message: str
    path: Path | None = None
    step: int | None = None
    size_bytes: int = 0
    moved: Path | None = None


@dataclass(frozen=True)
class SavedCheckpoint:
    """A step folder of a run, or its final model, whose ``step`` is None.

    ``rotated``: the trainer itself deleted its parameters, to keep only the newest ones.
    """

    path: Path
    step: int | None
    bytes: int
    complete: bool
    rotated: bool = False


def list_checkpoints(run: Run) -> list[SavedCheckpoint]:
    """What the run itself saved and is still there, by step, the final model last; also where a
    later run moved it."""
    own, complete = own_checkpoints(run, ()), complete_checkpoints(run)
    moved = written_steps(own.moved).values() if own.moved is not None else ()
    limit = value_of(run.read_config(), "trainer.max_actor_ckpt_to_keep")
    saved = []
    for path in (*own.entries, *moved):
        step = step_of(path)
        if step is not None or path.name == "final":
            is_whole = complete.get(step) == path if step is not None else not missing_parts(path)
            # verl deletes the folder of the actor, and leaves the rest.
            is_old = step is not None and step < max(complete, default=0)
            rotated = bool(limit) and is_old and not (path / "actor").exists()
            saved.append(SavedCheckpoint(path, step, bytes_of(path), is_whole, rotated))
    return sorted(saved, key=lambda checkpoint: (checkpoint.step is None, checkpoint.step or 0))


def complete_checkpoints(run: Run) -> dict[int, Path]:
    """The run's own complete steps, in order; also those that a later run moved or began with."""
    manifest = run.read_full_manifest()
    folder, mine = checkpoint_folder(manifest), Stamp.of(run, manifest)
    if folder is None:
        return {}
    owner, wanted = read_stamp(folder), WantedFiles.by_config(manifest.values)
    since = (manifest.created or 0.0) if owner is None else 0.0
    steps = complete_steps(folder, since, wanted)
    if owner is None or owner.same_run(mine):
        return steps
    aside = moved_aside(folder, mine)
    moved = complete_steps(aside, wanted=wanted) if aside is not None else {}
    return {step: path for step, path in steps.items() if step <= owner.inherited} | moved


def check_checkpoint(run: Run) -> CheckpointReport:
    """Find what the run should have saved, by the paths in its manifest."""
    manifest = run.read_full_manifest()
    if manifest.is_empty:
        return CheckpointReport(False, f"{run.manifest_file}: missing or unreadable")
    folder = _folder(manifest)
    if folder is None:
        problem = f"{run.manifest_file}: does not name a checkpoint folder"
        return CheckpointReport(False, problem if manifest.config else run.no_config())
    mine, kind = Stamp.of(run, manifest), find_kind(manifest.kind)
    if kind is not None and kind.has_final_model:
        report, marked = _final_model(folder / "final"), folder / "final"
    else:
        report, marked = _newest_step(folder, WantedFiles.by_config(manifest.values)), folder
    stamp, owner = read_stamp(marked), read_stamp(folder)
    if stamp is not None and stamp.same_run(mine):
        return report
    other = owner or stamp
    if other is not None and not other.same_run(mine):
        return CheckpointReport(False, taken(folder, mine, other), moved=moved_aside(folder, mine))
    if not report.complete:
        return report
    if owner is None:
        return _by_time(run, folder, report, manifest.created or 0.0)
    return CheckpointReport(False, f"none from this run: {marked} existed before it")


def _by_time(run: Run, folder: Path, report: CheckpointReport, created: float) -> CheckpointReport:
    """Decide by the files' times whether a checkpoint without a stamp is of this run."""
    assert report.path is not None
    last_file = folder / TRACKER if report.step is not None else report.path / "config.json"
    written = last_file.stat().st_mtime
    ended = (recorded_state(run) or RunState("lost")).ended
    if written < created:
        return CheckpointReport(False, f"none from this run: {report.path} is older than its start")
    if ended is not None and written > ended + _CLOCK_SLACK_S:
        return CheckpointReport(False, f"{folder}: overwritten by a later run")
    return report


def size_bytes(folder: Path) -> int:
    """Bytes of all files below ``folder``."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _folder(manifest: FullManifest) -> Path | None:
    kind = find_kind(manifest.kind)
    value = manifest.value(kind.checkpoint_key) if kind else None
    folder = jsonl.location(str(value)) if value else None
    return manifest.working_folder / Path(folder).expanduser() if folder else None


def _newest_step(folder: Path, wanted: WantedFiles) -> CheckpointReport:
    written = written_steps(folder)
    step = tracked_step(folder)
    if step is None and not written:
        return CheckpointReport(False, f"{folder}: no checkpoint was written")
    if step is None:
        newest = folder / f"global_step_{max(written)}"
        return CheckpointReport(False, f"{newest}: incomplete, {TRACKER} was not written")
    path = folder / f"global_step_{step}"
    problem = step_problem(path, wanted)
    if problem is not None:
        return CheckpointReport(False, f"{path}: incomplete, {problem}")
    later = [written_step for written_step in written if written_step > step]
    note = f"; global_step_{max(later)} is incomplete and not used" if later else ""
    return CheckpointReport(True, f"{path}: complete{note}", path, step, size_bytes(path))


def _final_model(path: Path) -> CheckpointReport:
    if not path.is_dir():
        return CheckpointReport(False, f"{path}: not written; it appears when training ends")
    missing = missing_parts(path)
    if missing:
        return CheckpointReport(False, f"{path}: incomplete, it has no {' and no '.join(missing)}")
    return CheckpointReport(True, f"{path}: complete", path, None, size_bytes(path))
