"""Small-scale reproduction of a run, a repro: does it fail at small scale, on the same rows?

If it does, the cause is infrastructure (engine, data, reward, judge). If it passes, the cause is in
what was reduced: the production configuration.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from engine.base.errors import UsageError
from engine.data.contract import read_facts, read_rows, write_rows
from engine.findings.finding import Change, Finding
from engine.host.surroundings import edited_complaint
from engine.launch.launcher import LaunchPlan, Parent, free_name, launch, plan
from engine.launch.lineage import named_values
from engine.launch.rerun import recipe_of, require_launch_folder
from engine.launch.rescore import pick_step
from engine.launch.shrink import Size, shrink_recipe
from engine.preflight.checklist import require_launchable
from engine.recipe.recipe import Recipe
from engine.recipe.steps import step_plan
from engine.recipe.unread import read_keys
from engine.runs.rundir import RunDir

STEPS, BATCH = 5, 4
FOLDER = Path("checkpoints/repro")

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
class Rows:
    """The questions of one step, and why that step."""

    step: int
    why: str
    questions: tuple[str, ...]


@dataclass(frozen=True)
class Repro:
    """What a reproduction will launch."""

    run: str
    plan: LaunchPlan
    reduced: tuple[Change, ...]
    """Its differences from the run."""
    unchanged: Mapping[str, Any]
    rows: Rows | None
    """None: the run's own training file, in the order of the same seed."""
    file: Path | None
    edited: str | None = None
    """What it cannot take over from the run, because a file was edited since; one line."""

    @property
    def recipe(self) -> Recipe:
        return self.plan.recipe

    def causes(self, findings: Sequence[Finding]) -> dict[str, object]:
        """Values that the run's findings name as the cause and that are unchanged: with them the
        small run fails as the run does."""
        named = named_values(findings)
        return {key: value for key, value in named.items() if self.recipe.get(key) == value}

    def to_json(self) -> dict[str, Any]:
        rows = self.rows
        return {
            "run": self.plan.run_id,
            "dir": str(self.plan.directory),
            "parent": {"run": self.run, "relation": "reproduction"},
            "shrunk": [change.to_json() for change in self.reduced],
            "kept": dict(self.unchanged),
            "edited": self.edited,
            "rows": None
            if rows is None
            else {"step": rows.step, "why": rows.why, "questions": list(rows.questions)},
        }


def plan_repro(run: RunDir, env: Mapping[str, str] | None = None, step: int | None = None) -> Repro:
    """Plan the reproduction of a run, on the rows of ``step``. Nothing is written.

    UsageError for a run that cannot be reproduced.
    """
    require_launch_folder(run)
    recipe, name = recipe_of(run), free_name(run.path.parent, f"{run.id[:85]}-repro")
    folder, rows, batch = FOLDER / name, rows_of(run, step), BATCH
    if rows is not None:
        count = len(_matching_rows(recipe, rows))
        rows, batch = (rows, min(BATCH, count)) if count else (None, BATCH)
    file = folder / "rows.parquet" if rows else None
    size = Size(STEPS, batch, str(folder), name, str(file) if file else None)
    small, changes = shrink_recipe(recipe, size, os.environ if env is None else env)
    planned = plan(small, name, run.path.parent, parent=Parent(run.id, "reproduction"))
    edited = edited_complaint(run.id, run.read_manifest())
    return Repro(run.id, planned, changes, _unchanged(small, changes), rows, file, edited)


def launch_repro(repro: Repro) -> RunDir:
    """Write the rows and launch. UsageError if a preflight check fails; then nothing is left."""
    try:
        planned = prepare(repro)
        require_launchable(planned.recipe, planned.directory.parent)
        return launch(planned)
    except BaseException:
        if repro.file is not None:
            repro.file.unlink(missing_ok=True)
            with suppress(OSError):  # The folder may hold something else by now.
                repro.file.parent.rmdir()
        raise


def prepare(repro: Repro) -> LaunchPlan:
    """Write the rows to train on. Returns the plan, with the number of steps that they give."""
    if repro.file is None or repro.rows is None:
        return repro.plan
    original = next(change.before for change in repro.reduced if change.key == "data.train_files")
    first = original[0] if isinstance(original, list) else original
    facts = read_facts(Path(str(first)))
    if facts is not None:
        write_rows(repro.file, _read_rows(original, repro.rows), facts)
    steps = step_plan(repro.recipe)
    return replace(repro.plan, total_steps=steps.total if steps else None)


def rows_of(run: RunDir, step: int | None = None) -> Rows | None:
    """The rows of ``step``, else of the first failed step. None if no rewards are recorded."""
    picked = pick_step(run, step)
    if picked is None:
        return None
    questions = dict.fromkeys(record.question_id for record in picked.records)
    return Rows(picked.step, picked.why, tuple(name for name in questions if name))


def _matching_rows(recipe: Recipe, rows: Rows) -> list[dict[str, Any]]:
    """The rows in the recipe's training files; none if those are missing or not in our format."""
    files = recipe.get("data.train_files")
    first = files[0] if isinstance(files, list) and files else files
    try:
        return _read_rows(files, rows) if first and read_facts(Path(str(first))) else []
    except (UsageError, KeyError, TypeError):
        return []


def _read_rows(files: Any, rows: Rows) -> list[dict[str, Any]]:
    names = files if isinstance(files, list) else [files]
    all_rows = (row for name in names for row in read_rows(Path(str(name))))
    return [row for row in all_rows if row["extra_info"]["question_id"] in rows.questions]


def _unchanged(recipe: Recipe, changes: Sequence[Change]) -> dict[str, Any]:
    changed = {change.key for change in changes}
    return {
        key: recipe.get(key)
        for key in read_keys(recipe)
        if (key in SHOWN_KEYS or key.startswith(SHOWN_SECTIONS))
        and key not in changed
        and recipe.get(key) is not None
    }
