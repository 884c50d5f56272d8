"""LLaMA-Factory's ``trainer_log.jsonl``: one flat JSON object per logging step or evaluation.

The object tells its step as ``current_steps``, of ``total_steps``; times are texts such as
``0:02:55`` and are left out.
"""

from __future__ import annotations

from engine.base import jsonl
from engine.formats.hf_names import HfNames
from engine.formats.json_lines import JsonLines, Record, records
from engine.formats.source import About, Sample
from engine.history.train_log import Metrics

_STEP, _TOTAL = "current_steps", "total_steps"
_NO_METRICS = frozenset({_STEP, _TOTAL, "percentage", "elapsed_time", "remaining_time"})
_NAMES = {"lr": "learning_rate"}


class LlamaFactoryLog(JsonLines):
    STEP = _STEP

    def __init__(self) -> None:
        super().__init__()
        self._names = HfNames()
        self._about = About()

    def about(self) -> About:
        return self._about

    def values(self, record: Record) -> Metrics | None:
        self._about = About(total_steps=jsonl.integer(record.get(_TOTAL)))
        told = ((name, value) for name, value in record.items() if name not in _NO_METRICS)
        return self._names.metrics((_NAMES.get(name, name), value) for name, value in told)


def is_it(sample: Sample) -> bool:
    return any(
        jsonl.integer(record.get(_STEP)) is not None and "percentage" in record
        for record in records(sample)
    )
