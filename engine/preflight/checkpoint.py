"""Is the model there to start from, and will the run start where one thinks it does?"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from engine.errors import UsageError
from engine.launch.launcher import checkpoint_dir
from engine.launch.recipe import CONFIG_DIR, Recipe, load_recipe
from engine.preflight.check import Check, Subject, fail, summary, warn
from engine.preflight.dataset import MAKE_TINY_WORLD, TINY_WORLD
from engine.preflight.models import is_hub_name, local_folder, model_key, model_name
from engine.records.checkpoints import TRACKER, tracked_step
from engine.records.model_folder import missing_parts
from engine.runs.registry import list_runs
from engine.runs.rundir import RunDir

ID = "checkpoint"


def check(subject: Subject) -> Check:
    """The model folder's parts, and checkpoints that an earlier run left in this one's way."""
    found = [*_model(subject), *_shared(subject), *_resume(subject.recipe)]
    name = model_name(subject.recipe)
    folder = local_folder(name, subject.env)
    where = f"{name} is complete" if folder else f"{name} will be downloaded from the hub"
    return summary(ID, found, f"{where}; starts from step 0")


def _model(subject: Subject) -> Iterator[Check]:
    recipe, name = subject.recipe, model_name(subject.recipe)
    where = f"{recipe.path}: {model_key(recipe)}={name}"
    folder = local_folder(name, subject.env)
    if folder is not None:
        yield from _incomplete(where, folder)
    elif not is_hub_name(name):
        yield fail(ID, f"{where} does not exist", _making(Path(name)))
    elif subject.env.get("HF_HUB_OFFLINE", "0").lower() in ("1", "true", "yes", "on"):
        yield fail(ID, f"{where} is not in the hub's cache, and HF_HUB_OFFLINE forbids to load it")


def _incomplete(where: str, folder: Path) -> Iterator[Check]:
    lacking = missing_parts(folder)
    if not lacking:
        return
    if (folder / "actor").is_dir() or list(folder.glob("model_world_size_*")):
        hint = " (a training checkpoint of verl is shards; merge it with verl.model_merger)"
    else:
        hint = ""
    yield fail(ID, f"{where} has no {' and no '.join(lacking)}{hint}", _making(folder))


def _making(folder: Path) -> str | None:
    """The command that trains the model which is missing, when a recipe here says so."""
    if folder.is_relative_to(TINY_WORLD):
        return MAKE_TINY_WORLD
    if folder.name != "final":
        return None
    for path in sorted(CONFIG_DIR.glob("*.yaml")):
        try:
            recipe = load_recipe(str(path), env={})
        except UsageError:
            continue
        if recipe.kind == "sft" and Path(checkpoint_dir(recipe)) == folder.parent:
            return f"grubrics-tui launch {recipe.name}"
    return "grubrics-tui launch sft_healthbench"


def _shared(subject: Subject) -> Iterator[Check]:
    """Two runs that save into one folder destroy each other's checkpoints."""
    recipe = subject.recipe
    folder = Path(checkpoint_dir(recipe)).absolute()
    for info in list_runs(subject.runs):
        if not info.state.has_ended and _saves_into(RunDir(subject.runs / info.id), folder):
            key = "training.output_dir" if recipe.kind == "sft" else "trainer.experiment_name"
            fix = f"wait for it, grubrics-tui stop {info.id}, or another {key}"
            yield fail(ID, f"{folder} is being written by run '{info.id}'", fix)


def _saves_into(run: RunDir, folder: Path) -> bool:
    manifest = run.read_manifest()
    theirs = Path(str(manifest.get("cwd") or ""), str(manifest.get("checkpoint_dir") or ""))
    return theirs.absolute() == folder


def _resume(recipe: Recipe) -> Iterator[Check]:
    folder = Path(checkpoint_dir(recipe)).expanduser()
    if recipe.kind == "sft":
        yield from _overwritten(folder / "final")
        return
    if recipe.get("trainer.resume_mode") == "resume_path":
        yield from _resume_path(recipe)
        return
    step = tracked_step(folder)
    if step is None or recipe.get("trainer.resume_mode") != "auto":
        return
    yield _leftover(recipe, folder, step)


def _leftover(recipe: Recipe, folder: Path, step: int) -> Check:
    total = recipe.get("trainer.total_training_steps")
    fresh = f"trainer.experiment_name={recipe.get('trainer.experiment_name')}-2"
    where = f"{folder}/{TRACKER}: trainer.resume_mode=auto"
    if total is not None and step >= total:
        message = f"{where} resumes from step {step}, which is past total_training_steps={total}"
        return fail(ID, message, f"{fresh} or trainer.total_training_steps={step + total}")
    return warn(ID, f"{where} will resume from step {step}, not start from step 0", fresh)


def _resume_path(recipe: Recipe) -> Iterator[Check]:
    key = "trainer.resume_from_path"
    path = str(recipe.get(key) or "")
    if "global_step_" not in path or not Path(path).is_dir():
        yield fail(
            ID, f"{recipe.path}: {key}={path or 'null'} is not an existing global_step_<n> folder"
        )


def _overwritten(final: Path) -> Iterator[Check]:
    if final.is_dir():
        yield warn(
            ID, f"{final} exists and will be overwritten", f"training.output_dir={final.parent}-2"
        )
