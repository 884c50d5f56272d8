"""verl's file logger: ``{"step": 7, "data": {"actor/pg_loss": 0.1, ...}}``; null is a NaN."""

from __future__ import annotations

from engine.base import jsonl
from engine.formats.json_lines import JsonLines, Record, records
from engine.formats.names import with_rewards
from engine.formats.source import Sample
from engine.history.train_log import Metrics, verl_metrics


class VerlJsonl(JsonLines):
    def values(self, record: Record) -> Metrics | None:
        data = record.get("data")
        return with_rewards(verl_metrics(data)) if isinstance(data, dict) else None


def is_it(sample: Sample) -> bool:
    return any(
        isinstance(record.get("data"), dict) and jsonl.integer(record.get("step")) is not None
        for record in records(sample)
    )
