"""Check that the run fits into the memory of GPUs and host, and its checkpoints on the disk.

Memory is an estimate. What is certain (weights, optimizer states, vLLM's share) forbids the
launch if it does not fit. What is an upper bound (activations and logits at the longest allowed
sample) only warns.
"""

from __future__ import annotations

import math
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import psutil

from engine.checkpoints.model_folder import parameter_count
from engine.estimate.breakdown import Breakdown
from engine.estimate.breakdown import size as readable
from engine.estimate.memory import certain
from engine.estimate.report import Sizes, kept, sizes_of, smallest_gpu
from engine.preflight.check import Check, Subject, fail, skip, summary, warn
from engine.recipe.places import checkpoint_dir, local_folder, lora_rank, model_name
from engine.recipe.recipe import Recipe
from engine.recipe.steps import count_of
from engine.runs.kinds import ByKind
from engine.runs.trust import folder_complaint

_MEMORY = "memory"

_ROLLOUT = "actor_rollout_ref.rollout"
_SHARE = f"{_ROLLOUT}.gpu_memory_utilization"
_MODEL_LEN = f"{_ROLLOUT}.max_model_len"
_SMALLEST_SHARE = 0.2


def check_memory(subject: Subject) -> Check:
    """The peak of the worst phase against the smallest GPU, with its largest parts."""
    recipe = subject.recipe
    if recipe.get("grubrics.device") == "cpu":
        return skip(_MEMORY, "not applicable: grubrics.device=cpu uses no GPU")
    card = smallest_gpu()
    sizes = sizes_of(recipe, subject.env, card)
    if sizes is None:
        return skip(_MEMORY, f"{model_name(recipe)}: its size is unknown until it is downloaded")
    peak = sizes.memory.peak
    if card is None:
        return skip(_MEMORY, f"no GPU is visible; besides vLLM's share: {arithmetic(peak)}")
    found = [*_gpu(recipe, sizes, card), *_cache(sizes), *_host(sizes)]
    return summary(_MEMORY, found, f"{arithmetic(peak)}, of {readable(card)}")


def arithmetic(phase: Breakdown) -> str:
    """A phase with its parts, largest first."""
    parts = sorted(phase.parts, key=lambda part: part.bytes, reverse=True)
    shown = " + ".join(f"{part.name} {readable(part.bytes)}" for part in parts[:4])
    rest = sum(part.bytes for part in parts[4:])
    more = f" + others {readable(rest)}" if rest else ""
    return f"{phase.name}: {readable(phase.total)} = {shown}{more}"


def _gpu(recipe: Recipe, sizes: Sizes, card: int) -> Iterator[Check]:
    for phase in sizes.memory.phases:
        if phase.total <= card:
            continue
        message = f"{arithmetic(phase)}, but the GPU has {readable(card)}"
        verdict = fail if certain(phase) > card else warn
        yield verdict(_MEMORY, message, _cure(recipe, sizes, phase, card))


def _cure(recipe: Recipe, sizes: Sizes, phase: Breakdown, card: int) -> str | None:
    """The mildest change that makes this phase smaller; it is not promised to be enough."""
    if phase.name == "rollout":
        share = float(recipe.get(_SHARE)) - (phase.total - card) / card
        lower = math.floor(share * 20) / 20
        offload = "actor_rollout_ref.actor.fsdp_config.optimizer_offload=true"
        return f"{_SHARE}={lower:g}" if lower >= _SMALLEST_SHARE else offload
    if not sizes.training.checkpointing:
        return f"{recipe.kind.checkpointing_key}=true"
    key = recipe.kind.micro_batch_key
    now = int(recipe.get(key) or 0)
    return f"{key}={now // 2}" if now > 1 and now % 2 == 0 else None


def _cache(sizes: Sizes) -> Iterator[Check]:
    """vLLM does not start when its cache cannot hold one sample of the longest length it allows."""
    cache, rollout = sizes.cache, sizes.training.rollout
    if cache is None or rollout is None or sizes.cache_suffices:
        return
    room = f"vLLM's memory share holds {cache.tokens:,} KV-cache tokens"
    if cache.holds_sample:
        message = f"{room}, fewer than max_model_len={rollout.model_len:,}"
        yield fail(_MEMORY, message, f"{_MODEL_LEN}={rollout.longest}")
    else:
        message = f"{room}, less than one sample of {rollout.longest:,}"
        yield fail(_MEMORY, message, f"{_SHARE}={min(0.9, rollout.share + 0.1):g}")


def _host(sizes: Sizes) -> Iterator[Check]:
    here, needed = host_memory(), sizes.memory.host
    if needed.total > here:
        yield warn(_MEMORY, f"{arithmetic(needed)}, but this host has {readable(here)}")


def host_memory() -> int:
    """Bytes of this machine's memory."""
    return int(psutil.virtual_memory().total)


_DISK = "disk"
RUN_BYTES = 512 * 1024**2
"""A run directory's own files: console, metrics, rollouts of some thousand steps."""

_FEWER = ByKind("disk", grpo="trainer.max_actor_ckpt_to_keep=1", sft="training.save_steps=-1")
_BYTES_FP32 = 4
_ADAM_BYTES = 8  # two fp32 moments for every trained weight
_LORA_SHARE = 0.06  # of the model's size: adapters and their moments, as measured at rank 64
_BILLIONS = re.compile(r"(\d+(?:\.\d+)?)b\b", re.IGNORECASE)


def check_disk(subject: Subject) -> Check:
    """Free space where checkpoints and runs go, against an estimate from the model's weights."""
    recipe = subject.recipe
    size, count = checkpoint_bytes(subject), kept(recipe)
    folder = Path(checkpoint_dir(recipe)).expanduser()
    free, runs_free = _free(folder), _free(subject.runs)
    about = f"about {readable(size)}" if size else "unknown size"
    estimate = f"{folder}: {count_of(count, 'checkpoint')} of {about}, {readable(free)} free"
    found = []
    if count and size > free:
        found.append(
            fail(_DISK, f"{estimate}: no space for a single checkpoint", _elsewhere(recipe))
        )
    elif count * size > free:
        found.append(warn(_DISK, f"{estimate}: no space for all of them", _fewer(recipe)))
    if runs_free < RUN_BYTES:
        found.append(
            fail(_DISK, f"{subject.runs}: {readable(runs_free)} free, too little for a run")
        )
    if (complaint := folder_complaint(subject.runs)) is not None:
        message = f"{complaint}: others could replace your runs with theirs"
        found.append(warn(_DISK, message, f"chmod +t {subject.runs}"))
    return summary(_DISK, found, estimate)


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
    return f"{recipe.kind.checkpoint_key}=FOLDER (on a larger disk)"


def _fewer(recipe: Recipe) -> str:
    return _FEWER[recipe.kind]
