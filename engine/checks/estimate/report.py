"""Estimate all that a run needs: memory, checkpoints on disk, judge calls and duration."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import psutil

from engine.checks.estimate.earlier_runs import Duration, duration, judge_times, step_times
from engine.checks.estimate.judge import JudgeUse, judge_use
from engine.checks.estimate.memory import (
    GIB,
    Breakdown,
    Cache,
    Memory,
    Part,
    breakdown,
    cache_of,
    certain,
    memory,
)
from engine.checks.estimate.model_shape import ModelShape, shape_of, why_unknown
from engine.checks.estimate.training import Training, training_of
from engine.config.compose import effective
from engine.config.load import Config
from engine.config.scoring import asks_judge
from engine.config.steps import StepPlan, step_plan
from engine.run.checkpoints.find import check_checkpoint, size_bytes
from engine.run.figures import read_machine_use
from engine.run.history import metrics
from engine.run.history.columns import Columns
from engine.run.host.environment import gpus
from engine.run.run import Run

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


def kept(config: Config, steps: StepPlan | None) -> int:
    """How many checkpoints will lie on the disk at the end."""
    kind = config.kind
    every = int(config.get(kind.save_every_key, -1))
    if every <= 0:
        return int(kind.has_final_model)
    enough = steps is not None and steps.rows >= steps.batch
    saves = math.ceil(steps.total / every) if steps is not None and enough else 1
    limit = config.get("trainer.max_actor_ckpt_to_keep")
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
    no_sizes: str = ""
    """Why ``sizes`` is None."""

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
            "kv_cache": None if sizes is None or sizes.cache is None else sizes.cache.to_json(),
            "checkpoint": None if sizes is None else sizes.checkpoint.to_json(),
            "checkpoints_kept": None if sizes is None else sizes.kept,
            "judge": None if self.judge is None else self.judge.to_json(),
            "duration": self.duration.to_json(),
        }


def estimate(
    config: Config, env: Mapping[str, str], runs: Path, gpu_bytes: int | None = None
) -> Estimate:
    """Nothing is written, downloaded or imported that trains.

    ``gpu_bytes`` stands in for the GPUs of this machine; on a CPU there is none to fit into.
    """
    device, plan = str(config.get("grubrics.device")), step_plan(config)
    card = None if device == "cpu" else gpu_bytes or smallest_gpu()
    judge = None
    if asks_judge(config) and plan is not None and plan.rows >= plan.batch:
        judge = judge_use(config, plan, judge_times(config, runs))
    return Estimate(
        device=device,
        gpu_bytes=card,
        host_bytes=int(psutil.virtual_memory().total),
        sizes=sizes_of(config, env, card, plan),
        judge=judge,
        duration=duration(plan.total if plan else None, step_times(config, runs)),
        no_sizes=why_unknown(config, env),
    )


def sizes_of(
    config: Config, env: Mapping[str, str], gpu_bytes: int | None, steps: StepPlan | None
) -> Sizes | None:
    """None for a model whose dimensions are not known."""
    shape = shape_of(config, env)
    if shape is None:
        return None
    training = training_of(effective(config, Path("attempt_1")), shape)
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
            final=config.kind.has_final_model,
        ),
        kept=kept(config, steps),
    )


def smallest_gpu() -> int | None:
    """Bytes of the smallest GPU of this machine; None without one."""
    return min((gpu.memory for gpu in gpus() if gpu.memory is not None), default=None)


Unit = Literal["bytes", "calls"]
_RESERVED = "perf/max_memory_reserved_gb"


@dataclass(frozen=True)
class Measured:
    """One quantity. ``estimate`` is None where it is unknown; ``note``: what one of them lacks.

    ``is_partial``: the estimate lacks what may be most of the quantity, so its error says nothing.
    """

    name: str
    unit: Unit
    estimate: float | None
    measured: float
    note: str = ""
    is_partial: bool = False

    @property
    def error(self) -> float | None:
        """Estimate / measured - 1: above 0, the estimate was too high."""
        if self.estimate is None or self.is_partial or not self.measured:
            return None
        return self.estimate / self.measured - 1

    def to_json(self) -> dict[str, Any]:
        return {**vars(self), "error": self.error}


def measured_of(run: Run, estimate: Estimate) -> list[Measured]:
    """What the files of a run say about the quantities that were estimated; empty before a step."""
    columns = Columns.read(run.train_log, {_RESERVED, metrics.JUDGE_CALLS})
    if not columns.names:
        return []
    use = read_machine_use(run)
    return [
        *_gpu(estimate, use.gpu_bytes, columns),
        *_host(estimate, use.host_bytes),
        *_checkpoint(run, estimate),
        *_judge(estimate, columns),
    ]


def _gpu(estimate: Estimate, peak: int | None, columns: Columns) -> Iterator[Measured]:
    expected = None
    if estimate.device != "cpu" and estimate.sizes is not None:
        expected = estimate.sizes.memory.peak.total
    if peak:
        yield Measured("memory of one GPU", "bytes", expected, peak)
    elif estimate.device != "cpu" and (reserved := _largest(columns, _RESERVED)):
        note = "measured: PyTorch's part only"
        yield Measured("memory of one GPU", "bytes", expected, reserved * GIB, note)


def _host(estimate: Estimate, peak: int | None) -> Iterator[Measured]:
    if not peak:
        return
    expected = None
    if (sizes := estimate.sizes) is not None:
        on_cpu = sizes.memory.peak.total if estimate.device == "cpu" else 0
        expected = sizes.memory.host.total + on_cpu
    is_partial = estimate.device == "cpu" and expected is not None
    note = "estimate: without Python and Ray"
    note += ", which may be most of the host memory of a CPU run" if is_partial else ""
    yield Measured("host memory", "bytes", expected, peak, note, is_partial)


def _checkpoint(run: Run, estimate: Estimate) -> Iterator[Measured]:
    saved = check_checkpoint(run)
    if not saved.complete or saved.path is None or estimate.sizes is None:
        return
    parts = estimate.sizes.checkpoint.parts
    is_final = saved.step is None
    expected = sum(part.bytes for part in parts if (part.name == FINAL_MODEL) == is_final)
    name = "final model" if is_final else "checkpoint"
    yield Measured(name, "bytes", expected, size_bytes(saved.path))


def _judge(estimate: Estimate, columns: Columns) -> Iterator[Measured]:
    calls = columns.get(metrics.JUDGE_CALLS).values
    if not calls.size or not (measured := float(calls.mean())):
        return
    expected = None if estimate.judge is None else float(estimate.judge.calls.step)
    yield Measured("judge calls per step", "calls", expected, measured)


def _largest(columns: Columns, name: str) -> float:
    values = columns.get(name).values
    finite = values[values == values]
    largest = float(finite.max()) if finite.size else 0.0
    return 0.0 if math.isinf(largest) else largest
