"""Compute how many optimizer steps a config asks for and its data allows."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from engine.base.errors import PackageError, UsageError
from engine.base.parquet import pq
from engine.base.quantities import format_count
from engine.base.records import SUFFIXES, read_records
from engine.config.load import Config
from engine.run.kinds import GRPO, ByKind


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
    dropped: int = 0
    """Rows that are too long, with ``data.filter_overlong_prompts``."""

    @property
    def used(self) -> int:
        return self.rows - self.dropped

    @property
    def reachable(self) -> int:
        """Steps that the epochs give; verl drops the incomplete last batch of each."""
        return self.used // self.batch * self.epochs

    @property
    def total(self) -> int:
        if not self.trains:
            return 0
        if self.asked is None:
            return self.reachable
        return min(self.asked, self.reachable) if self.bounded else self.asked

    def arithmetic(self) -> str:
        """Return how ``reachable`` is computed, in one line."""
        per_epoch = self.used // self.batch
        without = (
            f"{self.rows} rows - {self.dropped} too long" if self.dropped else f"{self.rows} rows"
        )
        return (
            f"{without} // batch {self.batch} = {format_count(per_epoch, 'step')}/epoch"
            f" x {format_count(self.epochs, 'epoch')} = {format_count(self.reachable, 'step')}"
        )


def step_plan(config: Config) -> StepPlan | None:
    """Return the plan, or None while the training file is missing or unreadable."""
    plan = _PLANS[config.kind]
    try:
        return plan(config)
    except (PackageError, UsageError, OSError, ValueError, TypeError, ZeroDivisionError):
        return None


OWN_DATA_SET = "data.custom_cls"


def own_data_set(config: Config) -> str | None:
    """The file of a data set class of the user's: it decides how many rows there are."""
    path = config.get(f"{OWN_DATA_SET}.path")
    return None if path is None or config.kind != GRPO else str(path)


def _grpo_plan(config: Config) -> StepPlan | None:
    if own_data_set(config):
        return None
    paths = [Path(name).expanduser() for name in config.listed("data.train_files")]
    rows = sum(pq.read_metadata(path).num_rows for path in paths)
    limit = config.get("data.train_max_samples")
    return plan_of_rows(config, min(rows, limit) if limit is not None and limit > 0 else rows)


def plan_of_rows(config: Config, rows: int) -> StepPlan:
    """The plan of a GRPO config whose data set has this many rows."""
    asked = config.get("trainer.total_training_steps")
    return StepPlan(
        rows=rows,
        batch=int(config.get("data.train_batch_size")),
        epochs=int(config.get("trainer.total_epochs")),
        asked=None if asked is None else int(asked),
        bounded=True,
        trains=not config.get("trainer.val_only"),
    )


def _sft_plan(config: Config) -> StepPlan:
    rows = _count_rows(Path(config.get("data.train_file")).expanduser())
    asked = config.get("training.max_steps")
    epochs = config.get("training.num_train_epochs")
    return StepPlan(rows, sft_batch(config), epochs, asked if asked > 0 else None, bounded=False)


def sft_batch(config: Config) -> int:
    """Conversations per optimizer step, over all ranks."""
    names = ("n_gpus", "per_device_train_batch_size", "gradient_accumulation_steps")
    return math.prod(int(config.get(f"training.{name}")) for name in names)


def _count_rows(path: Path) -> int:
    if path.suffix == ".parquet":
        return int(pq.read_metadata(path).num_rows)
    if path.suffix in SUFFIXES and path.suffix != ".jsonl":
        return sum(1 for _ in read_records(path))
    with path.open("rb") as handle:
        return sum(1 for line in handle if line.strip())


_PLANS: ByKind[Callable[[Config], StepPlan | None]] = ByKind(
    "steps", grpo=_grpo_plan, sft=_sft_plan
)
