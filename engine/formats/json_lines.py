"""What formats with one JSON object per step have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod

from engine.base import jsonl
from engine.formats.numbering import Numbering
from engine.formats.source import About, Sample
from engine.history.train_log import Metrics, Step

Record = dict[str, object]


def records(sample: Sample, count: int = 5) -> list[Record]:
    """The first JSON objects of a file."""
    found = []
    for line in sample.head.split(b"\n"):
        if line.lstrip(b"\0\xef\xbb\xbf \t").startswith(b"{"):
            record = jsonl.parse_line(line)
            if record is not None:
                found.append(record)
        if len(found) == count:
            break
    return found


class JsonLines(ABC):
    """``Parser`` of such a file. Lines that are no step are left out."""

    STEP = "step"
    """The key of a record's step."""

    def __init__(self) -> None:
        self._numbering = Numbering()

    def feed(self, lines: list[bytes]) -> list[Step]:
        found = []
        for line in lines:
            record = jsonl.parse_line(line)
            number = None if record is None else jsonl.integer(record.get(self.STEP))
            if record is None or number is None or number < 0:
                continue
            if (values := self.values(record)) is not None:
                found.append(self._numbering.step(number, values))
        return found

    def about(self) -> About:
        return About()

    @abstractmethod
    def values(self, record: Record) -> Metrics | None:
        """The metrics of a record by canonical name; None when it is no step."""
