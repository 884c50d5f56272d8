"""LLaMA-Factory's ``trainer_log.jsonl``: one flat JSON object per logging step or evaluation.

The object has its step in ``current_steps``, of ``total_steps``; times are texts such as
``0:02:55`` and are left out.
"""

from __future__ import annotations

from pathlib import Path

from engine.base import jsonl
from engine.formats.format import About, LineFormat, Parser, Sample
from engine.formats.json_lines import JsonLines, Record, records
from engine.formats.names import LoggedNames
from engine.history.train_log import Metrics

_STEP, _TOTAL = "current_steps", "total_steps"
_NO_METRICS = frozenset({_STEP, _TOTAL, "percentage", "elapsed_time", "remaining_time"})


class LlamaFactoryFormat(LineFormat):
    key, name = "llama-factory", "trainer_log.jsonl of LLaMA-Factory"
    trainers = ("LLaMA-Factory",)
    reads = "one flat object per logging step or evaluation, and the number of steps"

    def matches(self, sample: Sample) -> bool:
        return any(
            jsonl.integer(record.get(_STEP)) is not None and "percentage" in record
            for record in records(sample)
        )

    def parser(self, path: Path) -> Parser:
        return LlamaFactoryLog()


class LlamaFactoryLog(JsonLines):
    STEP = _STEP

    def __init__(self) -> None:
        super().__init__()
        self._names = LoggedNames()
        self._about = About()

    def about(self) -> About:
        return self._about

    def values(self, record: Record) -> Metrics | None:
        self._about = About(total_steps=jsonl.integer(record.get(_TOTAL)))
        pairs = (pair for pair in record.items() if pair[0] not in _NO_METRICS)
        return self._names.metrics(dict(pairs))
