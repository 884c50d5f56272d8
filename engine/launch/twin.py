"""The shrunken twin of a run: does it fail in small, on the same rows, as it failed in large?

If it does, the cause is infrastructure (engine, data, reward, judge); if it passes, the cause lies
in what was shrunk: the production configuration.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from engine.base.errors import UsageError
from engine.checkpoints.model_folder import missing_parts, parameter_count
from engine.data.contract import read_facts, read_rows, write_rows
from engine.findings.finding import Change, Finding
from engine.host.environment import gpus
from engine.host.surroundings import edited_complaint
from engine.launch.launcher import LaunchPlan, Parent, free_name, launch, plan
from engine.launch.lineage import named_values
from engine.launch.rerun import recipe_of, require_here
from engine.launch.rescore import pick_step
from engine.preflight.checklist import require_launchable
from engine.preflight.complete_change import Refusal, as_overrides, complete, with_overrides
from engine.preflight.dataset import MAKE_TINY_WORLD, TINY_WORLD
from engine.recipe.compose import on_cpu
from engine.recipe.places import is_hub_name, local_folder, lora_rank, model_name
from engine.recipe.recipe import Recipe
from engine.recipe.steps import step_plan
from engine.recipe.unread import is_never_read, read_keys
from engine.runs.kinds import ByKind
from engine.runs.rundir import RunDir

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

    def to_json(self) -> dict[str, Any]:
        rows = self.rows
        return {
            "run": self.plan.run_id,
            "dir": str(self.plan.directory),
            "parent": {"run": self.run, "relation": "reproduction"},
            "shrunk": [change.to_json() for change in self.shrunk],
            "kept": dict(self.kept),
            "edited": self.edited,
            "rows": None
            if rows is None
            else {"step": rows.step, "why": rows.why, "questions": list(rows.questions)},
        }


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


def rows_of(run: RunDir, step: int | None = None) -> Rows | None:
    """The rows of the step that tells most; None where no rewards are recorded."""
    if (found := pick_step(run, step)) is None:
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


HUB_MODEL = "Qwen/Qwen2.5-0.5B-Instruct"
MOST_ON_GPU, MOST_ON_CPU = 1_000_000_000, 50_000_000
"""Weights of a model that is small already."""
FEW_ROLLOUTS, LOW_RANK = 4, 8

_ACTOR = "actor_rollout_ref.actor"
_ROLLOUT = "actor_rollout_ref.rollout"
_MODEL = "actor_rollout_ref.model"
_OFF = ("0", "", "false", "no", "off")
_ALONE = "one process"

Wanted = Iterator[tuple[str, Any, str]]
"""Key, value and the reason in one phrase."""


@dataclass(frozen=True)
class Size:
    """How small. ``folder`` is for the small run's checkpoints, ``rows`` a file to train on."""

    steps: int
    batch: int
    folder: str
    name: str
    rows: str | None = None


def shrunk(recipe: Recipe, size: Size, env: Mapping[str, str]) -> tuple[Recipe, tuple[Change, ...]]:
    """The small recipe and every value that differs, each with its reason.

    UsageError when no small model is there or no valid small recipe exists.
    """
    has_gpu = bool(gpus()) and recipe.get("grubrics.device") == "cuda"
    sizes = _SIZES[recipe.kind](recipe, size, env, has_gpu)
    asked = {
        key: Change("config", key, value, recipe.get(key), why)
        for key, value, why in (*sizes, *_unguarded())
        if recipe.get(key) != value and (has_gpu or not _implied(recipe, key))
    }
    whole = complete(recipe, list(asked.values()))
    if isinstance(whole, Refusal):
        raise UsageError(f"{recipe.path}: cannot be scaled down: {whole.reason}")
    return with_overrides(recipe, as_overrides(whole)), whole


def _grpo(recipe: Recipe, size: Size, env: Mapping[str, str], has_gpu: bool) -> Wanted:
    model = small_model(recipe, env, has_gpu)
    yield "grubrics.device", "cuda" if has_gpu else "cpu", "runs where there is no GPU"
    yield recipe.kind.model_key, model, "small"
    yield f"{_ROLLOUT}.name", "hf", "one engine less that can be broken"
    yield "data.train_batch_size", size.batch, "few prompts"
    yield f"{_ROLLOUT}.n", min(FEW_ROLLOUTS, int(recipe.get(f"{_ROLLOUT}.n"))), "few rollouts"
    yield "trainer.total_training_steps", size.steps, "few steps"
    yield "trainer.total_epochs", size.steps, "never ends the run before its steps"
    yield from _adapters(recipe)
    for key in ("trainer.n_gpus_per_node", "trainer.nnodes"):
        yield key, 1, _ALONE
    for key in (
        f"{_ROLLOUT}.tensor_model_parallel_size",
        f"{_ACTOR}.ulysses_sequence_parallel_size",
    ):
        yield key, 1, _ALONE
    if model != model_name(recipe):
        yield "data.filter_overlong_prompts", False, "another tokenizer: cut, do not drop"
        yield "data.truncation", "left", "another tokenizer: cut, do not drop"
        yield f"{_ROLLOUT}.max_model_len", None, "as long as the small model takes"
    if size.rows is not None:
        yield "data.train_files", size.rows, "only the rows in question"
    yield from _own_folder(size)
    if not has_gpu:
        yield from _on_cpu(recipe)


def _adapters(recipe: Recipe) -> Wanted:
    for key in (f"{_MODEL}.lora_rank", f"{_MODEL}.lora.rank", "lora.r"):
        if lora_rank(recipe) and recipe.get(key):
            yield key, min(LOW_RANK, int(recipe.get(key))), "small"


def _own_folder(size: Size) -> Wanted:
    yield "trainer.default_local_dir", size.folder, "its own folder"
    yield "trainer.experiment_name", size.name, "its own name"
    yield "trainer.logger", ["console"], "keeps the tracker clean"
    yield "trainer.resume_mode", "disable", "from the beginning"
    yield "trainer.val_before_train", False, "training only"
    yield "trainer.test_freq", -1, "training only"
    yield "trainer.save_freq", size.steps, "saves once, at the end"
    yield "trainer.max_actor_ckpt_to_keep", 1, "saves once, at the end"


def _unguarded() -> Wanted:
    """A small run is made to show its trouble: nothing stops it early, nobody is called."""
    for key, value in (("stop_on", []), ("command", []), ("webhook_variable", None)):
        yield f"guard.{key}", value, "runs to its end, and notifies nobody"


def _implied(recipe: Recipe, key: str) -> bool:
    """Whether the CPU brings the value along because the recipe leaves it open."""
    return key in on_cpu(recipe) and not recipe.is_chosen(key)


def _on_cpu(recipe: Recipe) -> Wanted:
    """What the CPU implies for values that the recipe sets itself."""
    per_process = ("trainer.n_gpus_per_node", "ray_kwargs.")
    for key, value in on_cpu(recipe).items():
        if not key.startswith(per_process) and not is_never_read(key):
            yield key, value, "the CPU platform"
    yield f"{_ACTOR}.fsdp_config.model_dtype", "fp32", "the CPU platform"


def _sft(recipe: Recipe, size: Size, env: Mapping[str, str], has_gpu: bool) -> Wanted:
    yield "grubrics.device", "cuda" if has_gpu else "cpu", "runs where there is no GPU"
    yield recipe.kind.model_key, small_model(recipe, env, has_gpu), "small"
    yield "training.max_steps", size.steps, "few steps"
    yield "training.per_device_train_batch_size", size.batch, "few conversations"
    yield "training.gradient_accumulation_steps", 1, "few conversations"
    yield "training.n_gpus", 1, _ALONE
    yield from _adapters(recipe)
    yield "training.output_dir", size.folder, "its own folder"
    yield "training.save_steps", -1, "saves once, at the end"
    yield "training.resume_from", None, "from the beginning"
    yield "logging.run_name", size.name, "its own name"
    yield "logging.report_to", ["console", "file"], "keeps the tracker clean"
    if not has_gpu:
        yield "training.bf16", False, "the CPU platform"


def small_model(recipe: Recipe, env: Mapping[str, str], has_gpu: bool) -> str:
    """The recipe's own model where it is small, else 0.5B from the hub, else the tiny world's."""
    name = model_name(recipe)
    folder = local_folder(name, env)
    whole = folder is not None and not missing_parts(folder)
    count = parameter_count(folder) if folder is not None and whole else None
    if count is not None and count <= (MOST_ON_GPU if has_gpu else MOST_ON_CPU):
        return name
    offline = env.get("HF_HUB_OFFLINE", "0").lower() not in _OFF
    if has_gpu and (local_folder(HUB_MODEL, env) or (is_hub_name(name) and not offline)):
        return HUB_MODEL
    tiny = TINY_WORLD / "model"
    if not tiny.is_dir() or missing_parts(tiny):
        raise UsageError(f"{tiny}: no small model found. Create it: {MAKE_TINY_WORLD}")
    return str(Path(tiny))


_SIZES: ByKind[Callable[[Recipe, Size, Mapping[str, str], bool], Wanted]] = ByKind(
    "reproduce", grpo=_grpo, sft=_sft
)
