"""Formats with one JSON object per step: what they share, this project's own log, and any other."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from pathlib import Path

from engine.base import jsonl
from engine.formats.format import LineFormat, Parser, Sample
from engine.formats.names import HfNames, Numbering, find_step_name, whole_number, with_rewards
from engine.history.train_log import Metrics, Step

Record = dict[str, object]

_FIRST_LINES = 50
_DEEPEST = 3


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


class AnyJsonFormat(LineFormat):
    """Lines of JSON objects that name a step, of no trainer that is known."""

    key, name = "jsonl", "JSON lines with a step"
    trainers = ("JSONL",)
    reads = (
        "objects with `step`, `global_step`, `iteration` or `epoch`, and numbers; those of an "
        "object within are named `outer/inner`"
    )
    is_general = True

    def matches(self, sample: Sample) -> bool:
        lines = [line for line in sample.head.split(b"\n")[:_FIRST_LINES] if line.strip()]
        objects = sum(line.lstrip(b"\0\xef\xbb\xbf \t").startswith(b"{") for line in lines)
        if 2 * objects < len(lines):
            return False
        return any(AnyJson().step(record) is not None for record in records(sample))

    def parser(self, path: Path) -> Parser:
        return AnyJson()


class AnyJson(Parser):
    def __init__(self) -> None:
        self._names = HfNames()
        self._numbering = Numbering()

    def feed(self, lines: list[bytes]) -> list[Step]:
        read = [record for line in lines if (record := jsonl.parse_line(line)) is not None]
        return [step for record in read if (step := self.step(record)) is not None]

    def step(self, record: Record) -> Step | None:
        """The step of an object; None where it has no step or no number."""
        name = find_step_name(record)
        number = None if name is None else whole_number(record[name])
        values = {key: value for key, value in _flatten(record) if key != name}
        metrics = with_rewards(self._names.metrics(values))
        return self._numbering.step(number, metrics) if number is not None and metrics else None


def _flatten(record: Record, prefix: str = "", depth: int = 1) -> Iterator[tuple[str, object]]:
    """The numbers of an object and of those within it."""
    for name, value in record.items():
        if isinstance(value, dict):
            if depth < _DEEPEST:
                yield from _flatten(value, f"{prefix}{name}/", depth + 1)
        elif value is None or (isinstance(value, int | float) and not isinstance(value, bool)):
            yield f"{prefix}{name}", value
