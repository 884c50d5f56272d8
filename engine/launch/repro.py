"""Small-scale reproduction of a run, a repro: does it fail at small scale, on the same rows?

If it does, the cause is infrastructure (engine, data, reward, judge). If it passes, the cause is in
what was reduced: the production configuration.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from engine.base.errors import UsageError
from engine.base.parquet import pa
from engine.checks.preflight import require_launchable
from engine.config.load import Config
from engine.config.unread import read_keys
from engine.data.contract import open_parquet, write_table
from engine.launch.launcher import LaunchPlan, free_name, launch, plan
from engine.launch.lineage import named_values
from engine.launch.rerun import config_of, require_launch_folder
from engine.launch.rescore import PickedStep, pick_step, row_key
from engine.launch.shrink import Size, shrink_config
from engine.reward.scoring import question_of
from engine.run.finding import Change, Finding
from engine.run.host.surroundings import edited_complaint
from engine.run.manifest import Parent
from engine.run.run import Run

STEPS, BATCH = 5, 4
FOLDER = Path("checkpoints/repro")
_CLASS = "data.custom_cls.path"

SHOWN_KEYS = (
    "grubrics.seed", "data.seed", "training.seed", "data.train_files", "data.train_file",
    "algorithm.adv_estimator", "actor_rollout_ref.actor.optim.lr", "training.learning_rate",
    "data.max_prompt_length", "data.max_response_length", "actor_rollout_ref.rollout.temperature",
)  # fmt: skip
SHOWN_SECTIONS = (
    "reward_config.",
    "judge.",
    "reward.custom_reward_function.",
    "grubrics.temperature_schedule.",
    "grubrics.response_length_schedule.",
)
"""Keys and sections that are shown as unchanged, where they are unchanged and have an effect."""


@dataclass(frozen=True)
class Repro:
    """What a reproduction will launch."""

    run: str
    plan: LaunchPlan
    reduced: tuple[Change, ...]
    """Its differences from the run."""
    unchanged: Mapping[str, object]
    rows: PickedStep | None
    """The step whose rows it trains on. None: the run's own file, in the order of the same seed."""
    file: Path | None
    left_out: str = ""
    """Which failing rows it cannot train on, and why; half a sentence."""
    table: pa.Table | None = field(default=None, repr=False, compare=False)
    """The rows of ``rows``, to be written to ``file``."""
    edited: str | None = None
    """What it cannot take over from the run, because a file was edited since; one line."""

    @property
    def config(self) -> Config:
        return self.plan.config

    def causes(self, findings: Sequence[Finding]) -> dict[str, object]:
        """Values that the run's findings name as the cause and that are unchanged: with them the
        small run fails as the run does."""
        named = named_values(findings)
        return {key: value for key, value in named.items() if self.config.get(key) == value}

    def to_json(self) -> dict[str, object]:
        rows = self.rows
        return {
            "run": self.plan.run_id,
            "dir": str(self.plan.directory),
            "parent": {"run": self.run, "relation": "reproduction"},
            "shrunk": [change.to_json() for change in self.reduced],
            "kept": dict(self.unchanged),
            "edited": self.edited,
            "left_out": self.left_out,
            "rows": None
            if rows is None
            else {"step": rows.step, "why": rows.why, "questions": list(rows.questions)},
        }


def plan_repro(run: Run, env: Mapping[str, str] | None = None, step: int | None = None) -> Repro:
    """Plan the reproduction of a run, on the rows of ``step``. Nothing is written.

    UsageError for a run that cannot be reproduced.
    """
    require_launch_folder(run)
    config, name = config_of(run), free_name(run.path.parent, f"{run.id[:85]}-repro")
    folder, picked = FOLDER / name, pick_step(run, step)
    table = None if picked is None else _select_rows(config, picked)
    rows = None if table is None else picked
    batch = BATCH if table is None else min(BATCH, table.num_rows)
    left_out = ""
    if picked is not None and table is None and (picked.failing or step is not None):
        files = config.get("data.train_files")
        where = "a class makes the data" if config.get(_CLASS) else f"not found by ID in {files}"
        left_out = f"the rows of step {picked.step}, {picked.why}: {where}"
    file = folder / "rows.parquet" if rows else None
    size = Size(STEPS, batch, str(folder), name, str(file) if file else None)
    small, changes = shrink_config(config, size, os.environ if env is None else env)
    planned = plan(small, name, run.path.parent, parent=Parent(run.id, "reproduction"))
    edited = edited_complaint(run.id, run.read_manifest())
    changed = {change.key for change in changes}
    kept = {
        key: value
        for key in read_keys(small)
        if (key in SHOWN_KEYS or key.startswith(SHOWN_SECTIONS))
        and key not in changed
        and (value := small.get(key)) is not None
    }
    return Repro(run.id, planned, changes, kept, rows, file, left_out, table, edited)


def launch_repro(repro: Repro) -> Run:
    """Write the rows and launch. UsageError if a preflight check fails; then nothing is left."""
    try:
        write_rows(repro)
        require_launchable(repro.config, repro.plan.directory.parent)
        return launch(repro.plan)
    except BaseException:
        if repro.file is not None:
            repro.file.unlink(missing_ok=True)
            with suppress(OSError):  # The folder may hold something else by now.
                repro.file.parent.rmdir()
        raise


def write_rows(repro: Repro) -> None:
    """Write the rows to train on."""
    if repro.file is not None and repro.table is not None:
        write_table(repro.file, repro.table)


def _select_rows(config: Config, picked: PickedStep) -> pa.Table | None:
    """The rows of a step in the config's training files, as they are, those that failed first.

    None if the files have none of them, are no parquet files, or are read by a class of the user.
    The small run must reach every row that failed: there are no more rows than it can train on.
    """
    if config.get(_CLASS):
        return None
    names = config.listed("data.train_files")
    try:
        tables = [open_parquet(Path(str(name))).read() for name in names]
        table = pa.concat_tables(tables, promote_options="default")
    except (UsageError, pa.ArrowException):
        return None
    columns = [name for name in ("extra_info", "reward_model") if name in table.column_names]
    places: dict[str, list[int]] = {}
    for index, row in enumerate(table.select(columns).to_pylist()):
        truth = (row.get("reward_model") or {}).get("ground_truth")
        places.setdefault(question_of(row.get("extra_info") or {}) or f"={truth}", []).append(index)
    keys = dict.fromkeys(row_key(record) for record in (*picked.failing, *picked.records))
    indices = dict.fromkeys(index for key in keys for index in places.get(key, ()))
    chosen = table.take([*indices][: STEPS * BATCH]) if indices else None
    return chosen and chosen.replace_schema_metadata(tables[0].schema.metadata)
