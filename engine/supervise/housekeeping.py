"""Archive runs, or delete them for good.

Only a run that has ended and has no process left is touched, and a symbolic link is never followed.
"""

from __future__ import annotations

import os
import shutil
import stat
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from engine.base import files, jsonl
from engine.base.errors import UsageError, unknown_name, with_advice
from engine.run.checkpoints.disposal import (
    OwnCheckpoints,
    bytes_of,
    own_checkpoints,
    remove_checkpoints,
)
from engine.run.checkpoints.pruning import Keep, Pruning, Users, folder_of, plan_pruning, prune
from engine.run.processes import members
from engine.run.run import Run, archive_root, check_id, run_ids
from engine.run.staging import remove_abandoned
from engine.run.state import describe, readable_state, recorded_state, this_host
from engine.run.trust import is_neighbor, require
from engine.supervise import private_ray
from engine.supervise.finalize import hold_run
from engine.supervise.hosts import find_host

_TRASH = ".trash-"
_SILENCE_S = 300.0
"""A supervisor on another machine that was heard of more recently may still be there."""


@dataclass(frozen=True)
class Deletion:
    """What deleting a run would free, in bytes; nothing is gone yet."""

    run: Run
    root: Path
    files_bytes: int
    checkpoints: OwnCheckpoints = field(default_factory=OwnCheckpoints)

    def to_json(self) -> dict[str, object]:
        return {
            "run": self.run.id,
            "files_bytes": self.files_bytes,
            "checkpoints": str(self.checkpoints.folder) if self.checkpoints.folder else None,
            "checkpoint_bytes": self.checkpoints.bytes,
            "checkpoints_kept_because": self.checkpoints.kept_because,
            "checkpoints_moved_to": str(self.checkpoints.moved) if self.checkpoints.moved else None,
        }


def exact_run(root: Path, run_id: str) -> Run:
    """The run of exactly this id. UsageError otherwise: what deletes takes no abbreviations."""
    run = Run(root / check_id(run_id))
    if not run.manifest_file.exists() and not run.state_file.exists():
        error = unknown_name("run", run_id, run_ids(root))
        raise UsageError(with_advice(error, "A full run ID is needed here, not a prefix"))
    return run


def archive(run: Run) -> Run:
    """Move an ended run out of the list; its files stay as they are."""
    with _hold_ended(run):
        private_ray.remove_all(run)  # It is found by the path that the run has now.
        return _move(run, archive_root(run.path.parent))


def unarchive(run: Run) -> Run:
    """Move an archived run back into the list; UsageError for one that was resumed where it is."""
    with _hold_ended(run):
        return _move(run, run.path.parent.parent)


def plan_deletion(run: Run, root: Path) -> Deletion:
    """What can go with a run below ``root``. UsageError when the run must not be touched."""
    require_ended(run)
    return Deletion(run, root, bytes_of(run.path), own_checkpoints(run, _other_runs(run, root)))


def delete(deletion: Deletion, *, checkpoints: bool = False) -> int:
    """Delete a run, its checkpoints too when asked; returns the bytes that were freed.

    The checkpoints go first, so that an interruption leaves a run that can be deleted again. The
    run then leaves the list with one rename; ``finish_deletions`` removes what is left of it.
    """
    run, freed = deletion.run, deletion.files_bytes
    _require_apart(deletion, checkpoints)
    trash = run.path.with_name(f"{_TRASH}{run.id}-{time.time_ns()}")
    with _hold_ended(run):
        if checkpoints:
            if own_checkpoints(run, _other_runs(run, deletion.root)) != deletion.checkpoints:
                raise UsageError(
                    f"the checkpoints of run '{run.id}' have changed; nothing was deleted"
                )
            remove_checkpoints(deletion.checkpoints)
            freed += deletion.checkpoints.freed
        private_ray.remove_all(run)
        run.path.rename(trash)
    with suppress(FileNotFoundError):  # Another deletion may have removed it.
        shutil.rmtree(trash)
    return freed


def plan_prunings(
    runs: Sequence[Run], root: Path, keep: Keep, plans: Iterable[Path] = ()
) -> list[Pruning]:
    """What can be freed of the checkpoints of these runs; ``plans`` are files that name what runs
    to come start from. A run that is active or must not be touched keeps all."""
    users = _read_users(runs, root, plans)
    return [_plan_pruning(run, keep, users) for run in runs]


def prune_runs(
    prunings: Sequence[Pruning], root: Path, plans: Iterable[Path] = ()
) -> Iterator[int]:
    """Delete what was planned, run by run; yields the bytes that each freed. UsageError if what a
    run has, or who uses it, has changed since; the runs after it stay whole."""
    users = _read_users([pruning.run for pruning in prunings], root, plans)
    for pruning in prunings:
        with _hold_ended(pruning.run):
            if plan_pruning(pruning.run, pruning.keep, users) != pruning:
                raise UsageError(
                    f"the checkpoints of run '{pruning.run.id}' have changed; nothing more was "
                    "deleted"
                )
            yield prune(pruning)


def _read_users(runs: Sequence[Run], root: Path, plans: Iterable[Path]) -> Users:
    folders = [folder for run in runs if (folder := folder_of(run)) is not None]
    users = Users(folders, _all_runs(root))
    for file in plans:
        text = files.read_regular(file, jsonl.LARGEST_FILE).decode(errors="replace")
        users.add_plan(f"ablation '{file.parent.name}'", text)
    return users


def _plan_pruning(run: Run, keep: Keep, users: Users) -> Pruning:
    try:
        require_ended(run)
    except UsageError as error:
        return Pruning(run, keep, kept_because=str(error))
    return plan_pruning(run, keep, users)


def finish_deletions(root: Path) -> None:
    """Remove the remains of interrupted deletions and launches."""
    remove_abandoned(root)
    for folder in (root, archive_root(root)):
        with suppress(FileNotFoundError), os.scandir(folder) as entries:
            for entry in list(entries):
                is_own = entry.stat(follow_symlinks=False).st_uid == os.geteuid()
                is_trash = entry.name.startswith(_TRASH) and entry.is_dir(follow_symlinks=False)
                if is_own and is_trash:
                    shutil.rmtree(entry.path, ignore_errors=True)


def require_ended(run: Run) -> None:
    """UsageError, in one line, unless the run has ended and has no processes left."""
    require(run)
    if run.path.is_symlink():
        raise UsageError(
            f"{run.path} is a symbolic link; only real directories can be archived or deleted"
        )
    state = readable_state(run)
    if not state.has_ended:
        raise UsageError(f"run '{run.id}' has not ended ({describe(state)}); stop it first")
    pids = [process.pid for process in members(run)]
    if pids:
        raise UsageError(
            f"run '{run.id}' still has processes {pids}. Kill them first: grubrics-tui reap --yes"
        )
    if (left := find_host(run).left()) is not None:
        raise UsageError(f"run '{run.id}': {left}; stop it first")
    if (silent := _silent_elsewhere(run)) is not None:
        raise UsageError(
            f"run '{run.id}' was active on another machine {silent:.0f} s ago. "
            f"Try again after {_SILENCE_S:.0f} s without a heartbeat"
        )


@contextmanager
def _hold_ended(run: Run) -> Iterator[None]:
    """Lock an ended run, so that nobody resumes it meanwhile."""
    require_ended(run)
    with hold_run(run):
        require_ended(run)
        yield


def _require_apart(deletion: Deletion, checkpoints: bool) -> None:
    """UsageError for checkpoints that must stay but are inside of the run's directory."""
    run, saved = deletion.run, deletion.checkpoints
    if saved.folder is None or not saved.bytes or (checkpoints and saved.entries):
        return
    if Path(os.path.realpath(saved.folder)).is_relative_to(os.path.realpath(run.path)):
        hint = saved.kept_because or "--checkpoints deletes both"
        raise UsageError(f"run '{run.id}' holds its checkpoints itself, in {saved.folder}: {hint}")


def _silent_elsewhere(run: Run) -> float | None:
    """Seconds since the last heartbeat of a lost run that may still be active on its machine."""
    state = recorded_state(run)
    if state is None or state.has_ended or state.host in (None, this_host()):
        return None
    silent = time.time() - (state.heartbeat or 0.0)
    return silent if silent < _SILENCE_S else None


def _move(run: Run, folder: Path) -> Run:
    if run.path.is_symlink() or folder.is_symlink():
        raise UsageError(f"{run.path}: symbolic links are not followed; nothing was moved")
    if folder.exists() and not is_neighbor(str(folder)):
        raise UsageError(f"{folder} belongs to another user; nothing was moved")
    target = folder / run.id
    if os.path.lexists(target):
        raise UsageError(f"{target} already exists; nothing was moved")
    if not folder.exists():
        folder.mkdir()
        # Whoever may add runs to a shared folder may archive theirs.
        folder.chmod(stat.S_IMODE(folder.parent.stat().st_mode))
    run.path.rename(target)
    return Run(target)


def _other_runs(run: Run, root: Path) -> Iterator[Run]:
    """Every run except this one, including the archive."""
    return (candidate for candidate in _all_runs(root) if candidate.path != run.path)


def _all_runs(root: Path) -> Iterator[Run]:
    """Every run, including the archive."""
    for folder in (root, archive_root(root)):
        yield from (Run(folder / name) for name in run_ids(folder))
