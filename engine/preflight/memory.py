"""Does the run fit into the GPUs that are here, and into the host's memory?

An estimate, so it is careful with its verdict: what is certain (weights, Adam's moments, vLLM's
share) forbids the launch where it does not fit; what is an upper bound (activations and logits, as
if every sample were as long as is allowed) only warns.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import psutil

from engine.estimate.breakdown import Breakdown
from engine.estimate.breakdown import size as readable
from engine.estimate.memory import certain
from engine.estimate.report import Sizes, sizes_of, smallest_gpu
from engine.preflight.check import Check, Subject, fail, skip, summary, warn
from engine.recipe.models import model_name
from engine.recipe.recipe import Recipe

ID = "memory"

_ROLLOUT = "actor_rollout_ref.rollout"
_SHARE = f"{_ROLLOUT}.gpu_memory_utilization"
_MODEL_LEN = f"{_ROLLOUT}.max_model_len"
_SMALLEST_SHARE = 0.2


def check(subject: Subject) -> Check:
    """The peak of the worst phase against the smallest GPU, with its largest parts."""
    recipe = subject.recipe
    if recipe.get("grubrics.device") == "cpu":
        return skip(ID, "not applicable: grubrics.device=cpu uses no GPU")
    card = smallest_gpu()
    sizes = sizes_of(recipe, subject.env, card)
    if sizes is None:
        return skip(ID, f"{model_name(recipe)}: its dimensions are not known before it is here")
    peak = sizes.memory.peak
    if card is None:
        return skip(ID, f"no GPU is visible here; beside vLLM's share {arithmetic(peak)}")
    found = [*_gpu(recipe, sizes, card), *_cache(sizes), *_host(sizes)]
    return summary(ID, found, f"{arithmetic(peak)}, of {readable(card)}")


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
        yield verdict(ID, message, _cure(recipe, sizes, phase, card))


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
    room = f"vLLM's share leaves room for {cache.tokens:,} tokens of keys and values"
    if cache.holds_sample:
        message = f"{room}, fewer than the {rollout.model_len:,} it must promise"
        yield fail(ID, message, f"{_MODEL_LEN}={rollout.longest}")
    else:
        message = f"{room}, less than one sample of {rollout.longest:,}"
        yield fail(ID, message, f"{_SHARE}={min(0.9, rollout.share + 0.1):g}")


def _host(sizes: Sizes) -> Iterator[Check]:
    here, needed = host_memory(), sizes.memory.host
    if needed.total > here:
        yield warn(ID, f"{arithmetic(needed)}, but this host has {readable(here)}")


def host_memory() -> int:
    """Bytes of this machine's memory."""
    return int(psutil.virtual_memory().total)
