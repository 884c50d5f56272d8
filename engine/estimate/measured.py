"""The estimate of a run beside what the run took: memory, checkpoint, judge calls."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from engine.checkpoints.find import check_checkpoint, size_bytes
from engine.estimate.breakdown import GIB
from engine.estimate.report import FINAL_MODEL, Estimate
from engine.history import metrics
from engine.history.columns import Columns
from engine.runs.machine_use import read_machine_use
from engine.runs.rundir import RunDir

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


def measured_of(run: RunDir, estimate: Estimate) -> list[Measured]:
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


def _checkpoint(run: RunDir, estimate: Estimate) -> Iterator[Measured]:
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
