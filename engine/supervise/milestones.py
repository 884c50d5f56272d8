"""What a supervisor sees besides the start and the end of a run: validations, skipped updates,
complete checkpoints, and files of code that were edited."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from engine.base import files, jsonl
from engine.run.checkpoints.step_folders import complete_steps, tracked_step
from engine.run.history import metrics
from engine.run.history.train_log import Step
from engine.run.kinds import find_kind
from engine.run.manifest import FullManifest, Manifest

_VALIDATION = {
    metrics.VALIDATION_REWARD: "reward",
    metrics.VALIDATION_LOW: "low",
    metrics.VALIDATION_HIGH: "high",
    metrics.VALIDATION_BEST: "best_of_k",
    metrics.VALIDATION_LOSS: "loss",
}


def validation_of(step: Step) -> dict[str, object] | None:
    """The validation of a step: its reward with the interval, its loss, or both; None: neither."""
    results = {name: step.metrics[key] for key, name in _VALIDATION.items() if key in step.metrics}
    return {"step": step.step, **results} if results else None


def skipped_updates_of(step: Step) -> dict[str, object] | None:
    """The share of the updates of a step that were skipped, and how many there were in a row by
    then. None if none was."""
    share = step.metrics.get(metrics.SKIPPED_SHARE)
    in_a_row = step.metrics.get(metrics.MAX_SKIPPED_IN_A_ROW)
    return {"step": step.step, "share": share, "in_a_row": in_a_row} if share else None


@dataclass(frozen=True)
class NextSave:
    """When a run saves: every ``every`` steps, and at its last, ``total``; None: not known."""

    every: int | None = None
    total: int | None = None

    def after(self, step: int | None) -> str:
        """When a stop that waits for a checkpoint comes, as seen at ``step``."""
        if self.every is None:
            return "after the next checkpoint"
        coming = ((step or 0) // self.every + 1) * self.every if self.every > 0 else math.inf
        if self.total is not None and coming >= self.total:
            return f"at its end, step {self.total}: no checkpoint comes before"
        if coming == math.inf:
            return "at its end: no checkpoint comes before"
        return f"after the checkpoint of step {coming}"


def next_save(manifest: FullManifest) -> NextSave:
    """By the config of a run; SFT saves by the same rule as GRPO."""
    kind = find_kind(manifest.kind)
    key = kind.save_every_key if kind is not None else None
    return NextSave(jsonl.integer(manifest.value(key or "")), manifest.total_steps)


class CheckpointWatch:
    """Finds the checkpoints that become complete in a folder."""

    def __init__(self, folder: Path) -> None:
        """Checkpoints that are complete already are not found again."""
        self._folder = folder
        self._last = tracked_step(folder)

    def new(self) -> Iterator[tuple[int, Path]]:
        """Step and folder of each checkpoint that was completed since the last call.

        The tracker names only the newest one. A checkpoint that was deleted meanwhile, because a
        later one replaced it, is not found.
        """
        newest = tracked_step(self._folder)
        if newest is None or newest == self._last:
            return
        last, self._last = self._last or 0, newest
        # A run that resumes from an earlier step saves lower numbers than the tracker had.
        before = last if last < newest else newest - 1
        for step, path in complete_steps(self._folder).items():
            if before < step <= newest:
                yield step, path


class CodeWatch:
    """Checks the files repeatedly; reads only those that were touched."""

    def __init__(self, manifest: Manifest, cwd: Path) -> None:
        inputs, tools = manifest.reward_inputs, manifest.tools
        files = {**manifest.code, **inputs, **tools}
        self._inputs = {cwd / path for path in inputs}
        self._tools = {cwd / path for path in tools}
        self._hashes: dict[Path, str | None] = {
            cwd / path: facts.digest for path, facts in files.items()
        }
        self._launched = dict(self._hashes)
        self._versions: dict[Path, tuple[int, int, int] | None] = {}

    def changes(self) -> Iterator[Path]:
        """The files whose content differs from the last call; at first, from the launch."""
        for path, before in self._hashes.items():
            version = files.version_of(path)
            if path in self._versions and self._versions[path] == version:
                continue
            self._versions[path] = version
            now = _hash(path)
            if now != before:
                self._hashes[path] = now
                yield path

    def describe(self, path: Path) -> str:
        """How the file differs from the launch, by the last call of ``changes``."""
        if self._hashes[path] == self._launched[path]:
            return f"{path} has the content of the launch again"
        change = "changed" if self._hashes[path] else "is gone"
        if path in self._inputs:
            return f"{path}, which the reward reads, {change} since the launch; there is no copy"
        if path in self._tools:
            return f"{path}, which declares tools, {change} since the launch; there is no copy"
        return f"{path} {change} since the launch; the run uses its copy"


def _hash(path: Path) -> str | None:
    try:
        return hashlib.sha256(files.read_regular(path, jsonl.LARGEST_FILE)).hexdigest()
    except OSError:
        return None
