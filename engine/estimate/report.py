"""Estimate all that a run needs: memory, checkpoints on disk, judge calls and duration."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import psutil

from engine.estimate.breakdown import Breakdown, Part, breakdown
from engine.estimate.earlier_runs import Duration, duration, judge_times, step_times
from engine.estimate.judge import JudgeUse, judge_use
from engine.estimate.memory import Memory, certain, memory
from engine.estimate.model_shape import ModelShape, shape_of
from engine.estimate.rollout import Cache, cache_of
from engine.estimate.training import Training, training_of
from engine.host.environment import gpus
from engine.recipe.compose import effective
from engine.recipe.recipe import Recipe
from engine.recipe.scoring import asks_judge
from engine.recipe.steps import step_plan

OTHER = 128 * 1024
"""Random state, schedule, place in the data, configuration and torch's own headers."""
TOKENIZER = 12 * 1024**2
"""Of a vocabulary of 150,000; verl writes it into every checkpoint."""
FINAL_MODEL = "final model"
"""The part of a checkpoint that SFT writes once, in the end."""
_SMALL_VOCABULARY = 10_000


def checkpoint(
    shape: ModelShape, stored: int, rank: int, trained: int, *, final: bool
) -> Breakdown:
    """One checkpoint of all ranks together (verl's ``fsdp_checkpoint_manager.py``).

    ``model`` holds every weight, adapters too, as it is ``stored``; ``optim`` two moments for
    each that is trained. ``final``: SFT also writes the model alone, adapters merged.
    """
    weights = shape.weights + (trained if rank else 0)
    names = TOKENIZER if shape.vocab > _SMALL_VOCABULARY else 0
    return breakdown(
        "checkpoint",
        [
            Part("model", weights * stored, f"{weights:,} x {stored} B"),
            Part("optim", 2 * trained * stored, f"2 x {trained:,} x {stored} B"),
            Part("tokenizer and others", OTHER + names, "the same for every model size"),
            Part(FINAL_MODEL, shape.weights * stored if final else 0, "the weights alone"),
        ],
    )


def kept(recipe: Recipe) -> int:
    """How many checkpoints will lie on the disk at the end."""
    kind = recipe.kind
    every = int(recipe.get(kind.save_every_key, -1))
    if every <= 0:
        return int(kind.has_final_model)
    plan = step_plan(recipe)
    saves = math.ceil(plan.total / every) if plan is not None and plan.rows >= plan.batch else 1
    limit = recipe.get("trainer.max_actor_ckpt_to_keep")
    return saves if limit is None else min(saves, int(limit))


Room = Literal["fits", "at the limit", "may not fit", "does not fit"]
"""``at the limit``: the peak leaves less than ``MARGIN`` of the GPU. ``may not fit``: only parts
that are upper bounds exceed it."""
MARGIN = 0.1
"""What fragmentation of torch's allocator and NCCL's buffers can take; a rule of thumb."""


@dataclass(frozen=True)
class Sizes:
    """What follows from the model's dimensions. ``kept``: checkpoints at the end of the run."""

    shape: ModelShape
    training: Training
    memory: Memory
    cache: Cache | None
    checkpoint: Breakdown
    kept: int

    @property
    def cache_suffices(self) -> bool:
        """Whether vLLM's cache has room for one sample of the length it must promise."""
        return self.cache is None or self.cache.suffices


@dataclass(frozen=True)
class Estimate:
    """``sizes`` is None for a model whose dimensions are not known; ``judge`` where none is asked
    and while the data cannot be read. ``gpu_bytes``: memory of one GPU; None on a CPU and where it
    is unknown."""

    device: str
    gpu_bytes: int | None
    host_bytes: int
    sizes: Sizes | None
    judge: JudgeUse | None
    duration: Duration

    @property
    def room(self) -> Room | None:
        """Whether peak and vLLM's cache have room on the GPU; None where one is unknown."""
        if self.sizes is None or self.gpu_bytes is None:
            return None
        phases, peak = self.sizes.memory.phases, self.sizes.memory.peak.total
        least = max(certain(phase) for phase in phases)
        if least > self.gpu_bytes or not self.sizes.cache_suffices:
            return "does not fit"
        if peak > self.gpu_bytes:
            return "may not fit"
        return "at the limit" if peak > (1 - MARGIN) * self.gpu_bytes else "fits"

    @property
    def fits(self) -> bool | None:
        """None where it is not known, or depends on how long the samples are."""
        if self.room in (None, "may not fit"):
            return None
        return self.room != "does not fit"

    def to_json(self) -> dict[str, Any]:
        sizes = self.sizes
        return {
            "device": self.device,
            "gpu_bytes": self.gpu_bytes,
            "fits": self.fits,
            "room": self.room,
            "weights": None if sizes is None else sizes.shape.weights,
            "trained": None if sizes is None else sizes.training.trained,
            "lora": None if sizes is None else [asdict(one) for one in sizes.training.adapters],
            "memory": None if sizes is None else sizes.memory.to_json(),
            "kv_cache": None if sizes is None or sizes.cache is None else _cache_json(sizes.cache),
            "checkpoint": None if sizes is None else sizes.checkpoint.to_json(),
            "checkpoints_kept": None if sizes is None else sizes.kept,
            "judge": None if self.judge is None else self.judge.to_json(),
            "duration": self.duration.to_json(),
        }


def estimate(
    recipe: Recipe, env: Mapping[str, str], runs: Path, gpu_bytes: int | None = None
) -> Estimate:
    """Nothing is written, downloaded or imported that trains.

    ``gpu_bytes`` stands in for the GPUs of this machine; on a CPU there is none to fit into.
    """
    device, plan = str(recipe.get("grubrics.device")), step_plan(recipe)
    card = None if device == "cpu" else gpu_bytes or smallest_gpu()
    judge = None
    if asks_judge(recipe) and plan is not None and plan.rows >= plan.batch:
        judge = judge_use(recipe, plan, judge_times(recipe, runs))
    return Estimate(
        device=device,
        gpu_bytes=card,
        host_bytes=int(psutil.virtual_memory().total),
        sizes=sizes_of(recipe, env, card),
        judge=judge,
        duration=duration(plan.total if plan else None, step_times(recipe, runs)),
    )


def sizes_of(recipe: Recipe, env: Mapping[str, str], gpu_bytes: int | None) -> Sizes | None:
    """None for a model whose dimensions are not known."""
    shape = shape_of(recipe, env)
    if shape is None:
        return None
    training = training_of(effective(recipe, Path("attempt_1")), shape)
    rollout = training.rollout
    vllm = rollout is not None and rollout.name == "vllm" and gpu_bytes is not None
    return Sizes(
        shape=shape,
        training=training,
        memory=memory(training, shape, gpu_bytes),
        cache=cache_of(rollout, shape, gpu_bytes) if rollout and gpu_bytes and vllm else None,
        checkpoint=checkpoint(
            shape,
            training.stored,
            training.rank,
            training.trained,
            final=recipe.kind.has_final_model,
        ),
        kept=kept(recipe),
    )


def smallest_gpu() -> int | None:
    """Bytes of the smallest GPU of this machine; None without one."""
    return min((int(gpu["memory"]) for gpu in gpus()), default=None)


def _cache_json(cache: Cache) -> dict[str, Any]:
    return {
        "bytes": max(0, cache.bytes),
        "bytes_per_token": cache.per_token,
        "tokens": cache.tokens,
        "longest_samples": cache.sequences,
    }
