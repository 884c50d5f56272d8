"""Which checkpoints of an ended run can be freed while the run stays: neither the best, nor the
last, nor one that is in use."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from engine.base.errors import UsageError, unknown_name
from engine.run.checkpoints.disposal import (
    bytes_of,
    manifest_texts,
    own_checkpoints,
    remove_steps,
)
from engine.run.checkpoints.ownership import checkpoint_folder
from engine.run.checkpoints.step_folders import WantedFiles, complete_steps, step_of
from engine.run.history import metrics
from engine.run.history.train_log import history, read_steps
from engine.run.manifest import values_of
from engine.run.run import Run
from engine.run.state import observed_state

_BEST, _LAST, _EVERY = "best", "last", "every"


@dataclass(frozen=True)
class Keep:
    """What is kept of each run. ``every``: steps that this number divides; 0: none for that."""

    best: bool = True
    last: bool = True
    every: int = 0

    def __str__(self) -> str:
        words = [_BEST] * self.best + [_LAST] * self.last
        return ",".join(words + ([f"{_EVERY}={self.every}"] if self.every else []))


def parse_keep(text: str) -> Keep:
    """``best,last,every=10``. UsageError for anything else, and for nothing."""
    best = last = False
    every = 0
    for word in text.replace(",", " ").split():
        name, _, number = word.partition("=")
        if name == _EVERY:
            if not (number.isascii() and number.isdigit() and int(number) > 0):
                raise UsageError(f"--keep {word}: write a number of steps, e.g. every=10")
            every = int(number)
        elif word == _BEST:
            best = True
        elif word == _LAST:
            last = True
        else:
            raise unknown_name("checkpoint for --keep", word, [_BEST, _LAST, f"{_EVERY}=N"])
    if not (best or last or every):
        raise UsageError("--keep: name what to keep, e.g. best,last")
    return Keep(best, last, every)


@dataclass(frozen=True)
class Pruning:
    """What can be freed of a run. ``kept``: why each of the other steps stays. ``kept_because``:
    why all of them stay."""

    run: Run
    keep: Keep
    folder: Path | None = None
    kept: Mapping[int, str] = field(default_factory=dict)
    entries: tuple[Path, ...] = ()
    bytes: int = 0
    kept_because: str = ""

    @property
    def steps(self) -> list[int]:
        """The steps that are freed."""
        return sorted(step for entry in self.entries if (step := step_of(entry)) is not None)

    def to_json(self) -> dict[str, object]:
        return {
            "run": self.run.id,
            "folder": str(self.folder) if self.folder else None,
            "kept": {str(step): reason for step, reason in self.kept.items()},
            "kept_because": self.kept_because or None,
            "freed_steps": self.steps,
            "freed_bytes": self.bytes,
        }


class Users:
    """Who names a path below one of some checkpoint folders: runs, for any purpose, and plans.

    Every manifest is read once, however many folders there are.
    """

    def __init__(self, folders: Iterable[Path], runs: Iterable[Run]) -> None:
        self._folders = tuple(os.path.realpath(folder) for folder in folders)
        self._names: dict[str, dict[str, Run | None]] = {}
        """By path: those who name it, as an error calls them; None for a plan."""
        self._unreadable: list[Run] = []
        for run in runs if self._folders else ():
            self._add_run(run)

    def add_plan(self, name: str, text: str) -> None:
        """Add the words of a file that names what it will start from, such as a plan of runs."""
        self._add(text.replace('"', " ").replace("'", " ").split(), ".", name, None)

    def _add_run(self, run: Run) -> None:
        try:
            texts = manifest_texts(run)
        except FileNotFoundError:
            return
        except OSError:
            texts = None
        if texts is None:
            self._unreadable.append(run)
        else:
            self._add(texts.texts, texts.folder, f"run '{run.id}'", run)

    def _add(self, texts: Iterable[str], cwd: str, name: str, run: Run | None) -> None:
        for text in texts:
            for value in {text, text.partition("=")[2]} - {""}:
                path = _resolve(cwd, value)
                if path is not None and path.startswith(self._folders):
                    self._names.setdefault(path, {})[name] = run

    def find_user(self, step: Path, run: Run) -> str | None:
        """Who else names the step or a file in it."""
        inside = os.path.realpath(step)
        for path, names in self._names.items():
            if path == inside or path.startswith(f"{inside}{os.sep}"):
                for name, user in names.items():
                    if user is None or user.path != run.path:
                        return name
        return None

    def find_writer(self, folder: Path, run: Run) -> str | None:
        """Who else may save into the folder, or resume from its last step: an active run that names
        it, or a run whose manifest cannot be read."""
        for name, user in self._names.get(os.path.realpath(folder), {}).items():
            # A plan names the folder of its base, but gives every run another one.
            if user and user.path != run.path and not observed_state(user).has_ended:
                return name
        unreadable = (f"run '{user.id}'" for user in self._unreadable if user.path != run.path)
        return next(unreadable, None)


@lru_cache(maxsize=1 << 18)
def _resolve(cwd: str, text: str) -> str | None:
    """The real path that a text names; None for one that is no path."""
    path = os.path.expanduser(text)  # noqa: PTH111 - Path's fails without a home
    try:
        return os.path.realpath(os.path.join(cwd, path))  # noqa: PTH118 - of thousands
    except ValueError:
        return None  # A text with a zero byte.


def plan_pruning(run: Run, keep: Keep, users: Users) -> Pruning:
    """Plan what to free of an ended run. Nothing is deleted, and a doubt keeps everything.

    The model in ``final/`` and what an earlier run saved always stay.
    """
    own = own_checkpoints(run, ())
    entries = [entry for entry in own.entries if entry.name != "final"]
    if own.folder is None or not entries:
        return Pruning(run, keep, own.folder, kept_because=own.kept_because or "no checkpoints")
    if (writer := users.find_writer(own.folder, run)) is not None:
        return Pruning(run, keep, own.folder, kept_because=f"{writer} may use them")
    wanted = WantedFiles.by_config(values_of(run.read_config()))
    complete = list(complete_steps(own.folder, wanted=wanted))
    best = find_best(run, complete) if keep.best else None
    if keep.best and best is None and len(complete) > 1:
        reason = "the best is unknown: no checkpoint was validated at its step"
        return Pruning(run, keep, own.folder, kept_because=reason)
    steps = {step: entry for entry in entries if (step := step_of(entry)) is not None}
    reasons = {
        step: _reason(run, step, path, keep, best, complete, users)
        for step, path in sorted(steps.items())
    }
    kept = {step: reason for step, reason in reasons.items() if reason is not None}
    freed = tuple(entry for entry in entries if step_of(entry) not in kept)
    return Pruning(run, keep, own.folder, kept, freed, sum(map(bytes_of, freed)))


def _reason(
    run: Run,
    step: int,
    path: Path,
    keep: Keep,
    best: int | None,
    complete: list[int],
    users: Users,
) -> str | None:
    """Why a step stays, or None."""
    if step == best:
        return _BEST
    if complete and step == complete[-1]:
        if keep.last:
            return _LAST
        if not observed_state(run).went_well:
            return "last, from which the run can be resumed"
    if keep.every and step % keep.every == 0:
        return f"{_EVERY}={keep.every}"
    if (user := users.find_user(path, run)) is not None:
        return f"{user} uses it"
    return "an evaluation uses its weights" if _is_linked(path) else None


def find_best(run: Run, steps: Iterable[int]) -> int | None:
    """The step whose validation has the highest reward, else the lowest loss; the later one of
    equal ones. None if none of the steps was validated."""
    wanted = set(steps)
    saved = [step for step in history(read_steps(run.train_log)) if step.step in wanted]
    for name, sign in ((metrics.VALIDATION_REWARD, 1), (metrics.VALIDATION_LOSS, -1)):
        values = {
            step.step: sign * value
            for step in saved
            if (value := step.metrics.get(name)) is not None
        }
        if values:
            return max(values, key=lambda step: (values[step], step))
    return None


def _is_linked(step: Path) -> bool:
    """Whether a file has a second name, as while an evaluation holds it (``evaluation/lease.py``):
    deleting it would free nothing."""
    return any(status.st_nlink > 1 for status in _file_statuses(step))


def _file_statuses(folder: Path) -> Iterator[os.stat_result]:
    for parent, _, names in os.walk(folder):
        for name in names:
            yield (Path(parent) / name).lstat()


def prune(pruning: Pruning) -> int:
    """Delete what was planned; returns the bytes that were freed. OSError when an entry remains."""
    if pruning.folder is None or not pruning.entries:
        return 0
    wanted = WantedFiles.by_config(values_of(pruning.run.read_config()))
    kept = complete_steps(pruning.folder, wanted=wanted).keys() - set(pruning.steps)
    remove_steps(pruning.folder, pruning.entries, max(kept, default=0))
    return pruning.bytes


def folder_of(run: Run) -> Path | None:
    """The checkpoint folder of a run."""
    return checkpoint_folder(run.read_manifest())
