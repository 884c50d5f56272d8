"""A ``train_log.jsonl`` of this project, away from its run directory."""

from __future__ import annotations

from engine.base import jsonl
from engine.formats.json_lines import records
from engine.formats.source import About, Sample
from engine.history.train_log import Step


class OwnLog:
    """``Parser`` of it: the lines are steps as they stand."""

    def feed(self, lines: list[bytes]) -> list[Step]:
        found = [record for line in lines if (record := jsonl.parse_line(line)) is not None]
        return [step for record in found if (step := Step.from_json(record)) is not None]

    def about(self) -> About:
        return About()


def is_it(sample: Sample) -> bool:
    return any(Step.from_json(record) is not None for record in records(sample))
