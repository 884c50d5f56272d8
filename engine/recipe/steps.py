"""Compute how many optimizer steps a config asks for and its data allows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from engine.base.counts import count_of
from engine.base.errors import PackageError, UsageError
from engine.base.parquet import pq
from engine.base.records import SUFFIXES, read_records
from engine.recipe.recipe import Recipe
from engine.runs.kinds import ByKind


@dataclass(frozen=True)
class StepPlan:
    """The optimizer steps of a config.

    ``asked``: the configured limit; None when only rows and epochs determine the length.
    ``bounded``: whether the run ends with its epochs even when more steps were asked for.
    ``trains``: False for a run that only validates (``trainer.val_only``).
    """

    rows: int
    batch: int
    epochs: int
    asked: int | None
    bounded: bool
    trains: bool = True

    @property
    def reachable(self) -> int:
        """Steps that the epochs give; verl drops the incomplete last batch of each."""
        return self.rows // self.batch * self.epochs

    @property
    def total(self) -> int:
        if not self.trains:
            return 0
        if self.asked is None:
            return self.reachable
        return min(self.asked, self.reachable) if self.bounded else self.asked

    def arithmetic(self) -> str:
        """Return how ``reachable`` is computed, in one line."""
        per_epoch = self.rows // self.batch
        return (
            f"{self.rows} rows // batch {self.batch} = {count_of(per_epoch, 'step')}/epoch"
            f" x {count_of(self.epochs, 'epoch')} = {count_of(self.reachable, 'step')}"
        )


def step_plan(recipe: Recipe) -> StepPlan | None:
    """Return the plan, or None while the training file is missing or unreadable."""
    try:
        return _PLANS[recipe.kind](recipe)
    except (PackageError, UsageError, OSError, ValueError, TypeError, ZeroDivisionError):
        return None


def _grpo_plan(recipe: Recipe) -> StepPlan:
    files = recipe.get("data.train_files")
    names = files if isinstance(files, list) else [files]

    rows = sum(pq.read_metadata(Path(name).expanduser()).num_rows for name in names)
    limit = recipe.get("data.train_max_samples")
    if limit is not None and limit > 0:
        rows = min(rows, limit)
    asked = recipe.get("trainer.total_training_steps")
    return StepPlan(
        rows=rows,
        batch=int(recipe.get("data.train_batch_size")),
        epochs=int(recipe.get("trainer.total_epochs")),
        asked=None if asked is None else int(asked),
        bounded=True,
        trains=not recipe.get("trainer.val_only"),
    )


def _sft_plan(recipe: Recipe) -> StepPlan:
    rows = _count_rows(Path(recipe.get("data.train_file")).expanduser())
    batch = (
        recipe.get("training.per_device_train_batch_size")
        * recipe.get("training.gradient_accumulation_steps")
        * recipe.get("training.n_gpus")
    )
    asked = recipe.get("training.max_steps")
    epochs = recipe.get("training.num_train_epochs")
    return StepPlan(rows, batch, epochs, asked if asked > 0 else None, bounded=False)


def _count_rows(path: Path) -> int:
    if path.suffix == ".parquet":
        return int(pq.read_metadata(path).num_rows)
    if path.suffix in SUFFIXES and path.suffix != ".jsonl":
        return sum(1 for _ in read_records(path))
    with path.open("rb") as handle:
        return sum(1 for line in handle if line.strip())


_PLANS: ByKind[Callable[[Recipe], StepPlan]] = ByKind("steps", grpo=_grpo_plan, sft=_sft_plan)
