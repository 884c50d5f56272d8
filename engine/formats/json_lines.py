"""Formats with one JSON object per step: what they share, this project's own log, and any other."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from pathlib import Path

from engine.base import jsonl
from engine.formats.format import About, LineFormat, Parser, Sample
from engine.formats.names import LoggedNames, Numbering, find_step_name, step_of_total
from engine.history.train_log import Metrics, Step

Record = dict[str, object]

_FIRST_LINES = 50
_DEEPEST = 3
_NUMBERS = frozenset({int, float, str})


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
    trainers = ("ms-swift", "JSONL")
    reads = (
        "objects with `step`, `global_step`, `iteration` or `epoch`, also as `25/40`, and numbers; "
        "those of an object within are named `outer/inner`; a null is no value"
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
        self._names = LoggedNames()
        self._numbering = Numbering()
        self._about = About()

    def about(self) -> About:
        return self._about

    def feed(self, lines: list[bytes]) -> list[Step]:
        read = [record for line in lines if (record := jsonl.parse_line(line)) is not None]
        return [step for record in read if (step := self.step(record)) is not None]

    def step(self, record: Record) -> Step | None:
        """The step of an object; None where it has no step or no number, and for the whole history
        that ms-swift writes after its last step."""
        name = None if "log_history" in record else find_step_name(tuple(record))
        number, total = step_of_total(record[name]) if name is not None else (None, None)
        if number is None:
            return None
        if total is not None:
            self._about = About(total_steps=total)
        values = {key: value for key, value in record.items() if key != name}
        if not _NUMBERS.issuperset(map(type, values.values())):
            values = dict(_numbers(values))
        metrics = self._names.metrics(values)
        return self._numbering.step(number, metrics) if metrics else None


def _numbers(record: Record, prefix: str = "", depth: int = 1) -> Iterator[tuple[str, object]]:
    """The numbers of an object and of those within it; a text may be that of a number, or NaN."""
    for name, value in record.items():
        if type(value) in _NUMBERS:
            yield prefix + name, value
        elif isinstance(value, dict) and depth < _DEEPEST:
            yield from _numbers(value, f"{prefix}{name}/", depth + 1)
