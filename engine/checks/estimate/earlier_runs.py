"""Read step and judge times from earlier runs of the same config, or of one of the same size.

Nothing is estimated about speed: without such a run there is no basis, and that is said.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import islice, pairwise
from pathlib import Path
from statistics import fmean, median
from typing import Any

from engine.config.frozen import training_fingerprint
from engine.config.load import Config
from engine.run.columns import RunRow
from engine.run.history import metrics
from engine.run.history.train_log import Step, history, read_steps
from engine.run.host.environment import gpus
from engine.run.kinds import ByKind
from engine.run.manifest import FullManifest, Manifest
from engine.run.registry import list_runs
from engine.run.run import Run

_LOOKED_AT = 50
"""Newest runs that are opened; an older one says little about today's machine."""
_FEWEST_STEPS = 3
"""The first step warms up, so fewer say nothing about the others."""

_ACTOR = "actor_rollout_ref.actor"
_ROLLOUT = "actor_rollout_ref.rollout"
_SIZE = ByKind(
    "earlier runs of this size",
    grpo=(
        "grubrics.device", "trainer.n_gpus_per_node", "trainer.nnodes",
        "actor_rollout_ref.model.path", "actor_rollout_ref.model.lora_rank",
        "data.train_batch_size", "data.max_prompt_length", "data.max_response_length",
        f"{_ACTOR}.ppo_mini_batch_size", f"{_ACTOR}.ppo_micro_batch_size_per_gpu",
        f"{_ROLLOUT}.name", f"{_ROLLOUT}.n",
    ),
    sft=(
        "grubrics.device", "training.n_gpus", "model.path", "lora.r", "data.max_seq_length",
        "training.per_device_train_batch_size", "training.gradient_accumulation_steps",
    ),
)  # fmt: skip
_BY_DEVICE = {"cpu": ("trainer.n_gpus_per_node", f"{_ROLLOUT}.name")}
"""What a device implies, whatever the config says."""
_JUDGE = ("judge.provider", "judge.model")


@dataclass(frozen=True)
class StepTimes:
    """Seconds, from ``run``. ``first`` includes warm-up; ``start`` is what came before it.

    Where the trainer logs no step times, ``first`` is a usual step, and ``start`` has the warm-up.
    """

    run: str
    same_config: bool
    steps: int
    start: float | None
    first: float
    later_mean: float
    later_median: float


@dataclass(frozen=True)
class JudgeTimes:
    """Of one call, from ``run``: seconds, and tokens where the provider said them."""

    run: str
    latency: float | None
    tokens_in: float | None
    tokens_out: float | None


def step_times(config: Config, runs: Path) -> StepTimes | None:
    """From the newest run of the same config, else of the same size, on GPUs like these."""
    fingerprint, cards = training_fingerprint(config), [gpu.name for gpu in gpus()]
    implied = _BY_DEVICE.get(str(config.get("grubrics.device")), ())
    size = tuple(key for key in _SIZE[config.kind] if key not in implied)
    similar: StepTimes | None = None
    for row, manifest in _earlier(config, runs):
        same = manifest.fingerprint == fingerprint
        if not (same or _agree(config, manifest, size)) or _cards(manifest) != cards:
            continue
        found = _times(row, Run(runs / row.id), same)
        if found is not None and same:
            return found
        similar = similar or found
    return similar


def judge_times(config: Config, runs: Path) -> JudgeTimes | None:
    """From the newest run of the same config, else from the newest that asked the same judge."""
    fingerprint = training_fingerprint(config)
    similar: JudgeTimes | None = None
    for row, manifest in _earlier(config, runs):
        same = manifest.fingerprint == fingerprint
        if not _agree(config, manifest, _JUDGE) or (similar is not None and not same):
            continue
        found = _judge(row.id, list(read_steps(Run(runs / row.id).train_log)))
        if found is not None and same:
            return found
        similar = similar or found
    return similar


def _earlier(config: Config, runs: Path) -> Iterator[tuple[RunRow, FullManifest]]:
    alike = (row for row in list_runs(runs) if row.kind == config.kind.name)
    for row in islice(alike, _LOOKED_AT):
        yield row, Run(runs / row.id).read_full_manifest()


def _agree(config: Config, manifest: FullManifest, keys: tuple[str, ...]) -> bool:
    return all(manifest.value(key) == config.get(key) for key in keys)


def _cards(manifest: Manifest) -> list[str]:
    found = manifest.hardware.get("gpus")
    cards = found if isinstance(found, list) else []
    return [str(card.get("name")) for card in cards if isinstance(card, dict)]


def _times(row: RunRow, run: Run, same: bool) -> StepTimes | None:
    steps = history(read_steps(run.train_log))
    known = [(step, value) for step in steps if (value := step.metrics.get(metrics.STEP_TIME))]
    known = known or _between_lines(steps)
    if len(known) < _FEWEST_STEPS:
        return None
    (opening, first), later = known[0], [value for _, value in known[1:]]
    begun = row.started
    start = opening.time - begun - first if begun and opening.step == 1 else None
    return StepTimes(
        run=row.id,
        same_config=same,
        steps=len(known),
        start=None if start is None or start < 0 else start,
        first=first,
        later_mean=fmean(later),
        later_median=median(later),
    )


def _between_lines(steps: list[Step]) -> list[tuple[Step, float]]:
    """Steps with the seconds since the line of the step before, as verl's SFT trainer logs none.

    The first step has no line before it: it counts as the median of the others.
    """
    gaps = [
        (after, (after.time - before.time) / (after.step - before.step))
        for before, after in pairwise(steps)
        if after.attempt == before.attempt and after.step > before.step > 0
    ]
    known = [(step, gap) for step, gap in gaps if gap > 0]
    return [(steps[0], median(gap for _, gap in known)), *known] if known else []


def _judge(run: str, steps: list[Step]) -> JudgeTimes | None:
    latencies = _known(steps, metrics.JUDGE_LATENCY)
    if not latencies:
        return None
    calls = sum(_known(steps, metrics.JUDGE_CALLS))

    def each(name: str) -> float | None:
        told = _known(steps, name)
        return sum(told) / calls if told and calls else None

    return JudgeTimes(
        run, median(latencies), each(metrics.JUDGE_TOKENS_IN), each(metrics.JUDGE_TOKENS_OUT)
    )


def _known(steps: list[Step], name: str) -> list[float]:
    return [value for step in steps if (value := step.metrics.get(name)) is not None]


@dataclass(frozen=True)
class Duration:
    """Seconds. ``basis`` says from which run they are; None: there is none to go by."""

    steps: int | None
    seconds: float | None
    step: float | None
    basis: str | None

    @property
    def hours(self) -> float | None:
        return None if self.seconds is None else self.seconds / 3600

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "hours": self.hours}


def duration(steps: int | None, known: StepTimes | None) -> Duration:
    """Start + first step + mean of the later steps x how many: saves and validations are in it."""
    if known is None or steps is None:
        return Duration(steps, None, None, None)
    later = max(0, steps - 1) * known.later_mean
    kind = "the same config" if known.same_config else "a config of the same size"
    return Duration(
        steps=steps,
        seconds=(known.start or 0.0) + known.first + later,
        step=known.later_median,
        basis=f"{known.steps} measured steps of run '{known.run}' ({kind})",
    )
