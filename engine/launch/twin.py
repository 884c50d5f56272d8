"""The shrunken twin of a run: does it fail in small, on the same rows, as it failed in large?

If it does, the cause is infrastructure (engine, data, reward, judge); if it passes, the cause lies
in what was shrunk: the production configuration.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from engine.base.errors import UsageError
from engine.data.contract import read_facts, read_rows, write_rows
from engine.findings.finding import Change, Finding
from engine.host.surroundings import edited_complaint
from engine.launch.child import recipe_of
from engine.launch.launcher import LaunchPlan, Parent, free_name, launch, plan
from engine.launch.shrink import Size, shrunk
from engine.launch.telling_step import telling_step
from engine.launch.twin_verdict import named_values
from engine.preflight.checklist import require_launchable
from engine.recipe.recipe import Recipe
from engine.recipe.steps import step_plan
from engine.recipe.unread import read_keys
from engine.runs.rundir import RunDir
from engine.runs.trust import require

STEPS, BATCH = 5, 4
FOLDER = Path("checkpoints/twins")

KEPT = (
    "grubrics.seed", "data.seed", "training.seed", "data.train_files", "data.train_file",
    "reward_config.", "judge.", "reward.custom_reward_function.", "algorithm.adv_estimator",
    "actor_rollout_ref.actor.optim.lr", "training.learning_rate", "data.max_prompt_length",
    "data.max_response_length", "actor_rollout_ref.rollout.temperature",
)  # fmt: skip
"""Keys, or beginnings of keys, that are shown as kept where they are and have an effect."""


@dataclass(frozen=True)
class Rows:
    """The questions of one step, and why that step."""

    step: int
    why: str
    questions: tuple[str, ...]


@dataclass(frozen=True)
class Twin:
    """What a reproduction will launch. ``shrunk`` are its differences from the run."""

    run: str
    plan: LaunchPlan
    shrunk: tuple[Change, ...]
    kept: Mapping[str, Any]
    rows: Rows | None
    """None: the run's own training file, in the order of the same seed."""
    file: Path | None
    edited: str | None = None
    """What the twin does not have from the run, because a file was edited since; one line."""

    @property
    def recipe(self) -> Recipe:
        return self.plan.recipe

    def causes(self, found: Sequence[Finding]) -> dict[str, object]:
        """Values named as the cause by what was ``found`` in the run, and kept: with them the twin
        fails as the run does."""
        named = named_values(found)
        return {key: value for key, value in named.items() if self.recipe.get(key) == value}


def twin_of(run: RunDir, env: Mapping[str, str] | None = None, step: int | None = None) -> Twin:
    """Plan the twin of a run, on the rows of ``step``. Nothing is written. UsageError where none
    can be made."""
    require_here(run)
    recipe, name = recipe_of(run), free_name(run.path.parent, f"{run.id[:85]}-twin")
    rows, found = rows_of(run, step), 0
    if rows is not None and (found := len(_matching(recipe, rows))) < 1:
        rows = None
    file = FOLDER / name / "rows.parquet" if rows else None
    size = Size(
        steps=STEPS,
        batch=min(BATCH, found) if rows else BATCH,
        folder=str(FOLDER / name),
        name=name,
        rows=str(file) if file else None,
    )
    small, changes = shrunk(recipe, size, os.environ if env is None else env)
    parent = Parent(run.id, "reproduction")
    planned = plan(small, name, run.path.parent, parent=parent)
    edited = edited_complaint(run.id, run.read_manifest())
    return Twin(run.id, planned, changes, _kept(small, changes), rows, file, edited)


def launch_twin(run: RunDir) -> RunDir:
    """Launch the twin of a run; UsageError where none can be made or launched."""
    return launch_planned(twin_of(run))


def launch_planned(twin: Twin) -> RunDir:
    """Write the twin's rows and launch it. UsageError when a check of the checklist fails; then
    nothing is left of it."""
    try:
        planned = prepare(twin)
        require_launchable(planned.recipe, planned.directory.parent)
        return launch(planned)
    except BaseException:
        _forget_rows(twin)
        raise


def _forget_rows(twin: Twin) -> None:
    if twin.file is not None:
        twin.file.unlink(missing_ok=True)
        with suppress(OSError):  # It may hold something else by now.
            twin.file.parent.rmdir()


def prepare(twin: Twin) -> LaunchPlan:
    """Write the rows that the twin trains on; returns its plan, which then knows its steps."""
    if twin.file is None or twin.rows is None:
        return twin.plan
    original = next(change.before for change in twin.shrunk if change.key == "data.train_files")
    first = original[0] if isinstance(original, list) else original
    facts = read_facts(Path(str(first)))
    if facts is not None:
        write_rows(twin.file, _rows_in(original, twin.rows), facts)
    steps = step_plan(twin.recipe)
    return replace(twin.plan, total_steps=steps.total if steps else None)


def require_here(run: RunDir) -> None:
    """UsageError for a run of another folder, where its recipe's paths mean nothing, and for one
    of which nothing may be executed."""
    require(run, executes=True)
    cwd = run.read_manifest().get("cwd")
    if cwd and Path(str(cwd)) != Path.cwd():
        raise UsageError(f"run '{run.id}' was launched in {cwd}; reproduce it there")


def rows_of(run: RunDir, step: int | None = None) -> Rows | None:
    """The rows of the step that tells most; None where no rewards are recorded."""
    if (found := telling_step(run, step)) is None:
        return None
    questions = dict.fromkeys(one.question_id for one in found.records)
    return Rows(found.step, found.why, tuple(name for name in questions if name))


def _matching(recipe: Recipe, rows: Rows) -> list[dict[str, Any]]:
    """The rows in the recipe's training files; none where those are gone or are not ours."""
    files = recipe.get("data.train_files")
    first = files[0] if isinstance(files, list) and files else files
    try:
        return _rows_in(files, rows) if first and read_facts(Path(str(first))) else []
    except (UsageError, KeyError, TypeError):
        return []


def _rows_in(files: Any, rows: Rows) -> list[dict[str, Any]]:
    names = files if isinstance(files, list) else [files]
    every = (row for name in names for row in read_rows(Path(str(name))))
    return [row for row in every if row["extra_info"]["question_id"] in rows.questions]


def _kept(recipe: Recipe, changes: Sequence[Change]) -> dict[str, Any]:
    changed = {change.key for change in changes}

    def shown() -> Iterator[tuple[str, Any]]:
        for key in read_keys(recipe):
            value = recipe.get(key)
            named = key in KEPT or any(key.startswith(one) for one in KEPT if one.endswith("."))
            if named and key not in changed and value is not None:
                yield key, value

    return dict(shown())
