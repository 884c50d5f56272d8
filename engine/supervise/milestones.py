"""Events of a run's log besides its start and end: validations, skipped updates, and complete
checkpoints."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.base import jsonl
from engine.checkpoints.step_folders import complete_steps, tracked_step
from engine.history import metrics
from engine.history.train_log import Step
from engine.runs.kinds import find_kind
from engine.runs.manifest import values_of

_VALIDATION = {
    metrics.VALIDATION_REWARD: "reward",
    metrics.VALIDATION_LOW: "low",
    metrics.VALIDATION_HIGH: "high",
    metrics.VALIDATION_BEST: "best_of_k",
    metrics.VALIDATION_LOSS: "loss",
}


def validation_of(step: Step) -> dict[str, Any] | None:
    """The validation of a step: its reward with the interval, its loss, or both; None: neither."""
    results = {name: step.metrics[key] for key, name in _VALIDATION.items() if key in step.metrics}
    return {"step": step.step, **results} if results else None


def skipped_updates_of(step: Step) -> dict[str, Any] | None:
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


def next_save(manifest: Mapping[str, Any]) -> NextSave:
    """By the config of a run; SFT saves by the same rule as GRPO."""
    kind = find_kind(manifest.get("kind"))
    values, total = values_of(manifest), jsonl.integer(manifest.get("total_steps"))
    key = kind.save_every_key if kind is not None else None
    return NextSave(jsonl.integer(values.get(key or "")), total)


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
