"""Formats with one JSON object per step: what they share, and this project's own log."""

from __future__ import annotations

from abc import abstractmethod
from pathlib import Path

from engine.base import jsonl
from engine.formats.format import LineFormat, Parser, Sample
from engine.formats.names import Numbering
from engine.history.train_log import Metrics, Step

Record = dict[str, object]


def records(sample: Sample, count: int = 5) -> list[Record]:
    """The first JSON objects of a file."""
    first: list[Record] = []
    for line in sample.head.split(b"\n"):
        if line.lstrip(b"\0\xef\xbb\xbf \t").startswith(b"{"):
            record = jsonl.parse_line(line)
            if record is not None:
                first.append(record)
        if len(first) == count:
            break
    return first


class JsonLines(Parser):
    """Parses such a file. Lines that are no step are left out."""

    STEP = "step"
    """The key of a record's step."""

    def __init__(self) -> None:
        self._numbering = Numbering()

    def feed(self, lines: list[bytes]) -> list[Step]:
        steps = []
        for line in lines:
            record = jsonl.parse_line(line)
            number = None if record is None else jsonl.integer(record.get(self.STEP))
            if record is None or number is None or number < 0:
                continue
            if (values := self.values(record)) is not None:
                steps.append(self._numbering.step(number, values))
        return steps

    @abstractmethod
    def values(self, record: Record) -> Metrics | None:
        """The metrics of a record by canonical name; None when it is no step."""


class OwnLogFormat(LineFormat):
    """A ``train_log.jsonl`` of this project, away from its run directory."""

    key, name = "own", "train_log.jsonl of grubrics-tui"
    trainers = ("grubrics-tui",)
    reads = "the file alone, without its run directory"

    def matches(self, sample: Sample) -> bool:
        return any(Step.from_json(record) is not None for record in records(sample))

    def parser(self, path: Path) -> Parser:
        return OwnLog()


class OwnLog(Parser):
    """Its lines are steps already."""

    def feed(self, lines: list[bytes]) -> list[Step]:
        read = [record for line in lines if (record := jsonl.parse_line(line)) is not None]
        return [step for record in read if (step := Step.from_json(record)) is not None]
