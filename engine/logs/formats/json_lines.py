"""Formats with one JSON object per step: those of known programs, and any other."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from pathlib import Path
from statistics import stdev
from typing import Any

from engine.base import jsonl
from engine.base.typed import convert_record
from engine.logs.formats.format import About, LineFormat, Parser, Sample, StepParser
from engine.logs.formats.names import clean_name, find_setting, find_step_name, step_of_total
from engine.run.history import metrics
from engine.run.history.train_log import Metrics, Step, StepLine, numbers

Record = dict[str, object]

_FIRST_LINES = 50
_DEEPEST = 3
_NUMBERS = frozenset({int, float, str})
_SLO_MARKS = frozenset({"advantage", "json_valid", "latency_ms", "tokens_out", "schema_path"})
_ENOUGH_MARKS = 3


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


class JsonLines(StepParser):
    """Parses such a file. Lines that are no step are left out."""

    STEP = "step"
    """The key of a record's step."""

    def step(self, line: bytes) -> Step | None:
        record = jsonl.parse_line(line)
        number = None if record is None else jsonl.integer(record.get(self.STEP))
        if record is None or number is None or number < 0:
            return None
        values = self.values(record)
        return None if values is None else self.numbering.step(number, values)

    @abstractmethod
    def values(self, record: Record) -> Metrics | None:
        """The metrics of a record by canonical name; None when it is no step."""


class OwnLog(StepParser):
    """Its lines are steps already."""

    def step(self, line: bytes) -> Step | None:
        return Step.parse(line)


class OwnLogFormat(LineFormat):
    """A ``train_log.jsonl`` of this project, away from its run directory."""

    key, name = "own", "train_log.jsonl of grubrics-tui"
    trainers, is_own = ("grubrics-tui",), True
    file_names = ("*.jsonl",)
    reads = "the file alone, without its run directory"
    parser_class = OwnLog

    def matches(self, sample: Sample) -> bool:
        return any(convert_record(record, StepLine) is not None for record in records(sample))


class LlamaFactoryLog(JsonLines):
    """LLaMA-Factory's ``trainer_log.jsonl``: one flat object per logging step or evaluation. Times
    are texts such as ``0:02:55`` and are left out."""

    STEP = "current_steps"
    _NO_METRICS = frozenset({STEP, "total_steps", "percentage", "elapsed_time", "remaining_time"})

    def values(self, record: Record) -> Metrics | None:
        self.known = About(total_steps=jsonl.integer(record.get("total_steps")))
        pairs = (pair for pair in record.items() if pair[0] not in self._NO_METRICS)
        return self.names.metrics(dict(pairs))


class LlamaFactoryFormat(LineFormat):
    key, name = "llama-factory", "trainer_log.jsonl of LLaMA-Factory"
    trainers, file_names = ("LLaMA-Factory",), ("*.jsonl",)
    reads = "one flat object per logging step or evaluation, and the number of steps"
    parser_class = LlamaFactoryLog

    def matches(self, sample: Sample) -> bool:
        return any(
            jsonl.integer(record.get(LlamaFactoryLog.STEP)) is not None and "percentage" in record
            for record in records(sample)
        )


class SloLog(JsonLines):
    """agent_stable_slo's ``train_log.jsonl``: one flat object per step, beside a manifest.

    With ``mean_reward`` the run samples a group per step, ``reward`` is its best and
    ``group_rewards`` are all of them; without it a step is one sample.
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        # A log of another name was moved away from its run: the manifest beside it is not its own.
        is_home = path.name == "train_log.jsonl"
        self.known = _about(path.with_name("manifest.json")) if is_home else About()

    def values(self, record: Record) -> Metrics | None:
        if not _is_slo_step(record):
            return None
        plain = numbers(record)
        del plain["step"]
        values = _rewards(plain, record.get("group_rewards"))
        if "step_ms" in plain:
            took = plain.pop("step_ms")
            values[metrics.STEP_TIME] = None if took is None else took / 1000
        for name, value in plain.items():
            values.setdefault("actor/loss" if name == "loss" else clean_name(name), value)
        return values


class SloFormat(LineFormat):
    key, name = "slo", "agent_stable_slo train_log.jsonl"
    trainers, is_own = ("agent_stable_slo",), True
    file_names = ("*.jsonl",)
    reads = "one flat object per step; steps and model from the manifest beside it"

    def matches(self, sample: Sample) -> bool:
        return any(_is_slo_step(record) for record in records(sample))

    def parser(self, path: Path) -> Parser:
        return SloLog(path)


def _is_slo_step(record: Record) -> bool:
    has_step = jsonl.integer(record.get("step")) is not None
    return has_step and "reward" in record and len(_SLO_MARKS & record.keys()) >= _ENOUGH_MARKS


def _rewards(plain: Metrics, group: Any) -> Metrics:
    """The mean reward and, of a group, its min, max and std."""
    reward = plain.pop("reward", None)
    if "mean_reward" not in plain:
        return {metrics.REWARD_MEAN: reward}
    values = {metrics.REWARD_MEAN: plain.pop("mean_reward"), metrics.REWARD_MAX: reward}
    scores = group if isinstance(group, list) else []
    numbers = [score for raw in scores if (score := jsonl.number(raw)) is not None]
    if len(numbers) > 1 and len(numbers) == len(scores):
        values[metrics.REWARD_MIN] = min(numbers)
        values[metrics.REWARD_STD] = stdev(numbers)
        values[metrics.ZERO_STD_SHARE] = float(values[metrics.REWARD_STD] == 0)
    return values


def _about(manifest: Path) -> About:
    raw = jsonl.read_json(manifest) or {}
    config = raw.get("config")
    settings = config if isinstance(config, dict) else {}
    return About(
        jsonl.integer(find_setting(settings, "steps")),
        jsonl.line(find_setting(settings, "base_model")),
        jsonl.moment(raw.get("created_at")),
    )


class AnyJson(StepParser):
    def step(self, line: bytes) -> Step | None:
        record = jsonl.parse_line(line)
        return None if record is None else self.step_of(record)

    def step_of(self, record: Record) -> Step | None:
        """The step of an object; None where it has no step or no number, and for the whole history
        that ms-swift writes after its last step."""
        name = None if "log_history" in record else find_step_name(tuple(record))
        number, total = step_of_total(record[name]) if name is not None else (None, None)
        if number is None:
            return None
        if total is not None:
            self.known = About(total_steps=total)
        values = {key: value for key, value in record.items() if key != name}
        if not _NUMBERS.issuperset(map(type, values.values())):
            values = dict(_numbers(values))
        return self.make(number, values)


class AnyJsonFormat(LineFormat):
    """Lines of JSON objects that name a step, of no trainer that is known."""

    key, name = "jsonl", "JSON lines with a step"
    trainers, file_names = ("ms-swift", "JSONL"), ("*.jsonl",)
    reads = (
        "objects with `step`, `global_step`, `iteration` or `epoch`, also as `25/40`, and numbers; "
        "those of an object within are named `outer/inner`; a null is no value"
    )
    is_general = True
    parser_class = AnyJson

    def matches(self, sample: Sample) -> bool:
        lines = [line for line in sample.head.split(b"\n")[:_FIRST_LINES] if line.strip()]
        objects = sum(line.lstrip(b"\0\xef\xbb\xbf \t").startswith(b"{") for line in lines)
        if 2 * objects < len(lines):
            return False
        return any(AnyJson().step_of(record) is not None for record in records(sample))


def _numbers(record: Record, prefix: str = "", depth: int = 1) -> Iterator[tuple[str, object]]:
    """The numbers of an object and of those within it; a text may be that of a number, or NaN."""
    for name, value in record.items():
        if type(value) in _NUMBERS:
            yield prefix + name, value
        elif isinstance(value, dict) and depth < _DEEPEST:
            yield from _numbers(value, f"{prefix}{name}/", depth + 1)
