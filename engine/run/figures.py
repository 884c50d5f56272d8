"""The figures of a run: those that lists show, from the end of its ``train_log.jsonl``, and what it
took of its machine, by the samples in ``system.jsonl`` of its attempts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from msgspec import UNSET, Struct, UnsetType, field

from engine.base import files
from engine.base.holes import lines_backwards
from engine.base.typed import Integer, Number, decode_record, read_lines
from engine.run.run import Run
from engine.run.system_sample import SystemSample

REWARD = "reward/mean"
LOSS = "train/loss"
VALIDATION = "val/reward"

_CURVE_KEYS = tuple(f'"{name}"'.encode() for name in (REWARD, LOSS))
_VALIDATION_KEY = f'"{VALIDATION}"'.encode()
_CURVE = 8
"""Steps of the small curve."""
_FARTHEST = 4 << 20
"""Bytes from the end that are searched: a run that never validates would be read completely."""


@dataclass(frozen=True)
class Figures:
    """``rewards`` are the mean rewards of the last steps, oldest first; None where it was NaN.

    ``losses`` are those of a run without rewards. ``validation`` is the reward of the newest
    validation.
    """

    rewards: tuple[float | None, ...] = ()
    losses: tuple[float | None, ...] = ()
    validation: float | None = None


class _Metrics(Struct, frozen=True, gc=False):
    """None where the trainer wrote a NaN."""

    reward: Number | UnsetType | None = field(default=UNSET, name=REWARD)
    loss: Number | UnsetType | None = field(default=UNSET, name=LOSS)
    validation: Number | None = field(default=None, name=VALIDATION)


class _Step(Struct, frozen=True, gc=False):
    """What is read of a line of ``train_log.jsonl``: half of the time of all its metrics."""

    step: Integer
    metrics: _Metrics


def read_figures(train_log: Path) -> Figures:
    """Read the last rewards or losses and the last validation; of a repeated step, the later line
    counts.

    Cheap enough for ten thousand runs: of most logs, only the last lines are parsed.
    """
    rewards: dict[int, float | None] = {}
    losses: dict[int, float | None] = {}
    validations: dict[int, float | None] = {}
    for line in _lines_backwards(train_log):
        # The last lines of a resumed run need not be its last steps, so all of them are parsed.
        has_curve = max(len(rewards), len(losses)) >= _CURVE and b'"attempt": 1,' in line
        if has_curve and (validations or not rewards):
            break
        if _VALIDATION_KEY not in line and (has_curve or not any(k in line for k in _CURVE_KEYS)):
            continue
        if (record := decode_record(line, _Step)) is None:
            continue
        step, metrics = record.step, record.metrics
        if metrics.reward is not UNSET:
            rewards.setdefault(step, metrics.reward)
        elif metrics.loss is not UNSET:
            losses.setdefault(step, metrics.loss)
        if metrics.validation is not None:
            validations.setdefault(step, metrics.validation)
    validation = validations[max(validations)] if validations else None
    return Figures(_newest(rewards), () if rewards else _newest(losses), validation)


def _newest(values: dict[int, float | None]) -> tuple[float | None, ...]:
    return tuple(values[step] for step in sorted(values)[-_CURVE:])


def _lines_backwards(path: Path) -> Iterator[bytes]:
    """The last lines of a file, last one first; none of a file that cannot be read."""
    searched = 0
    with suppress(OSError), files.open_regular(path) as handle:
        for line in lines_backwards(handle.fileno()):
            yield line
            searched += len(line)
            if searched > _FARTHEST:
                return


@dataclass(frozen=True)
class MachineUse:
    """``gpu_bytes`` and ``host_bytes``: the most that the run's processes took on one GPU and in
    host memory. ``gpu_percent``: mean use of the GPUs over all samples. None: not sampled."""

    gpu_bytes: int | None = None
    gpu_percent: float | None = None
    host_bytes: int | None = None


def read_machine_use(run: Run) -> MachineUse:
    """Read the samples of all attempts."""
    memory, host = [0], [0]
    use: list[float | None] = []
    for attempt in run.attempts():
        for sample in read_lines(attempt.system, SystemSample):
            memory += [gpu.run_mem or 0 for gpu in sample.gpus]
            use += [gpu.util for gpu in sample.gpus]
            host.append(sample.run.memory or 0)
    known = [percent for percent in use if percent is not None]
    return MachineUse(
        max(memory) or None, sum(known) / len(known) if known else None, max(host) or None
    )
