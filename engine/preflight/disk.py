"""Is there room for the checkpoints?"""

from __future__ import annotations

import math
import re
import shutil
from pathlib import Path

from engine.launch.launcher import checkpoint_dir
from engine.launch.recipe import Recipe
from engine.launch.steps import step_plan
from engine.preflight.check import Check, Subject, fail, summary, warn
from engine.preflight.models import local_folder, lora_rank, model_name
from engine.records.model_folder import parameter_count

ID = "disk"
RUN_BYTES = 512 * 1024**2
"""A run directory's own files: console, metrics, rollouts of some thousand steps."""

_BYTES_FP32 = 4
_ADAM_BYTES = 8  # two fp32 moments for every trained weight
_LORA_SHARE = 0.06  # of the model's size: adapters and their moments, as measured at rank 64
_BILLIONS = re.compile(r"(\d+(?:\.\d+)?)b\b", re.IGNORECASE)


def check(subject: Subject) -> Check:
    """Free space where checkpoints and runs go, against an estimate from the model's weights."""
    recipe = subject.recipe
    size, count = checkpoint_bytes(subject), kept_checkpoints(recipe)
    folder = Path(checkpoint_dir(recipe)).expanduser()
    free, runs_free = _free(folder), _free(subject.runs)
    about = f"about {_size(size)}" if size else "unknown size"
    estimate = f"{folder}: {count} checkpoints of {about}, {_size(free)} free"
    found = []
    if count and size > free:
        found.append(fail(ID, f"{estimate}: not even one fits", _elsewhere(recipe)))
    elif count * size > free:
        found.append(warn(ID, f"{estimate}: not all fit", _fewer(recipe)))
    if runs_free < RUN_BYTES:
        found.append(fail(ID, f"{subject.runs}: {_size(runs_free)} free is too little for a run"))
    return summary(ID, found, estimate)


def checkpoint_bytes(subject: Subject) -> int:
    """Estimated size of one checkpoint; 0 when the number of weights is not known.

    verl's shards hold fp32 weights and, for those that are trained, two Adam moments. SFT also
    writes the weights alone, as its final model.
    """
    weights = _parameters(subject) or 0
    size = weights * _BYTES_FP32
    moments = int(size * _LORA_SHARE) if lora_rank(subject.recipe) else weights * _ADAM_BYTES
    final = size if subject.recipe.kind == "sft" else 0
    return size + moments + final


def kept_checkpoints(recipe: Recipe) -> int:
    """How many checkpoints will lie on the disk at the end."""
    every_key = "trainer.save_freq" if recipe.kind == "grpo" else "training.save_steps"
    every = recipe.get(every_key, -1)
    if every <= 0:
        return 0 if recipe.kind == "grpo" else 1
    plan = step_plan(recipe)
    saves = math.ceil(plan.total / every) if plan is not None and plan.rows >= plan.batch else 1
    limit = recipe.get("trainer.max_actor_ckpt_to_keep")
    return saves if limit is None else min(saves, int(limit))


def _parameters(subject: Subject) -> int | None:
    name = model_name(subject.recipe)
    folder = local_folder(name, subject.env)
    counted = parameter_count(folder) if folder is not None else None
    if counted is not None:
        return counted
    stated = _BILLIONS.search(name)
    return int(float(stated.group(1)) * 1e9) if stated else None


def _free(path: Path) -> int:
    """Free bytes of the file system that ``path`` is or will be on."""
    path = path.absolute()
    existing = next(parent for parent in (path, *path.parents) if parent.exists())
    return shutil.disk_usage(existing).free


def _elsewhere(recipe: Recipe) -> str:
    key = "trainer.default_local_dir" if recipe.kind == "grpo" else "training.output_dir"
    return f"{key}=<a folder on a larger disk>"


def _fewer(recipe: Recipe) -> str:
    return "trainer.max_actor_ckpt_to_keep=1" if recipe.kind == "grpo" else "training.save_steps=-1"


def _size(size: int) -> str:
    return f"{size / 1024**3:.1f} GiB" if size >= 1024**3 else f"{size / 1024**2:.1f} MiB"
