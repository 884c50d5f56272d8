"""What a run took of its machine, by the samples in ``system.jsonl`` of its attempts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from engine.base import jsonl
from engine.runs.rundir import RunDir


@dataclass(frozen=True)
class MachineUse:
    """``gpu_bytes`` and ``host_bytes``: the most that the run's processes took on one GPU and in
    host memory. ``gpu_percent``: mean use of the GPUs over all samples. None: not sampled."""

    gpu_bytes: int | None = None
    gpu_percent: float | None = None
    host_bytes: int | None = None


def read_machine_use(run: RunDir) -> MachineUse:
    """Read the samples of all attempts."""
    memory, host = [0], [0]
    use: list[float | None] = []
    for attempt in run.attempts():
        for sample in jsonl.read(attempt.system):
            cards, processes = sample.get("gpus"), sample.get("run")
            for card in cards if isinstance(cards, list) else ():
                memory.append(_integer(card, "run_mem"))
                use.append(jsonl.number(card.get("util")) if isinstance(card, dict) else None)
            # Shared pages count once in ``pss``, which not every sample has.
            host.append(_integer(processes, "pss") or _integer(processes, "rss"))
    known = [percent for percent in use if percent is not None]
    return MachineUse(
        max(memory) or None, sum(known) / len(known) if known else None, max(host) or None
    )


def _integer(values: Any, key: str) -> int:
    return (jsonl.integer(values.get(key)) or 0) if isinstance(values, dict) else 0
