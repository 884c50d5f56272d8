"""Is there room for the checkpoints, and a folder for the run that is this user's?"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from engine.checkpoints.model_folder import parameter_count
from engine.estimate.breakdown import size as readable
from engine.estimate.checkpoint import kept
from engine.estimate.report import sizes_of
from engine.preflight.check import Check, Subject, fail, summary, warn
from engine.recipe.models import local_folder, lora_rank, model_name
from engine.recipe.places import checkpoint_dir
from engine.recipe.recipe import Recipe
from engine.recipe.steps import count_of
from engine.runs.kinds import ByKind
from engine.runs.trust import folder_complaint

ID = "disk"
RUN_BYTES = 512 * 1024**2
"""A run directory's own files: console, metrics, rollouts of some thousand steps."""

_FEWER = ByKind("disk", grpo="trainer.max_actor_ckpt_to_keep=1", sft="training.save_steps=-1")
_BYTES_FP32 = 4
_ADAM_BYTES = 8  # two fp32 moments for every trained weight
_LORA_SHARE = 0.06  # of the model's size: adapters and their moments, as measured at rank 64
_BILLIONS = re.compile(r"(\d+(?:\.\d+)?)b\b", re.IGNORECASE)


def check(subject: Subject) -> Check:
    """Free space where checkpoints and runs go, against an estimate from the model's weights."""
    recipe = subject.recipe
    size, count = checkpoint_bytes(subject), kept(recipe)
    folder = Path(checkpoint_dir(recipe)).expanduser()
    free, runs_free = _free(folder), _free(subject.runs)
    about = f"about {readable(size)}" if size else "unknown size"
    estimate = f"{folder}: {count_of(count, 'checkpoint')} of {about}, {readable(free)} free"
    found = []
    if count and size > free:
        found.append(fail(ID, f"{estimate}: not even one fits", _elsewhere(recipe)))
    elif count * size > free:
        found.append(warn(ID, f"{estimate}: not all fit", _fewer(recipe)))
    if runs_free < RUN_BYTES:
        found.append(
            fail(ID, f"{subject.runs}: {readable(runs_free)} free is too little for a run")
        )
    if (complaint := folder_complaint(subject.runs)) is not None:
        message = f"{complaint}: others could put runs of theirs in the place of yours"
        found.append(warn(ID, message, f"chmod +t {subject.runs}"))
    return summary(ID, found, estimate)


def checkpoint_bytes(subject: Subject) -> int:
    """Estimated size of one checkpoint; 0 when nothing is known of the model.

    Without the model's dimensions its number of weights must do: fp32 weights and, for those
    that are trained, two Adam moments.
    """
    sizes = sizes_of(subject.recipe, subject.env, None)
    if sizes is not None:
        return sizes.checkpoint.total
    weights = _parameters(subject) or 0
    size = weights * _BYTES_FP32
    moments = int(size * _LORA_SHARE) if lora_rank(subject.recipe) else weights * _ADAM_BYTES
    final = size if subject.recipe.kind.has_final_model else 0
    return size + moments + final


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
    return f"{recipe.kind.checkpoint_key}=<a folder on a larger disk>"


def _fewer(recipe: Recipe) -> str:
    return _FEWER[recipe.kind]
