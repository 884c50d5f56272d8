"""One line per step: verl's metrics joined with what our reward recorded, one history per run."""

from __future__ import annotations

import json
import math
import time
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any

from engine.base import files, jsonl
from engine.base.follow import Tail
from engine.base.holes import lines_backwards
from engine.history import metrics
from engine.history.rewards import Record, reward_metrics, validation_metrics
from engine.runs.rundir import Attempt

Metrics = dict[str, float | None]

_RECENT = 20
"""Steps that tell how long the next ones will take."""


@dataclass(frozen=True)
class Step:
    """One line of ``train_log.jsonl``. A metric is None when it was NaN or infinite.

    ``redone`` marks a step that an earlier attempt had logged: the later line counts.
    """

    step: int
    attempt: int
    time: float
    metrics: Mapping[str, float | None]
    redone: bool = False

    def to_json(self) -> dict[str, Any]:
        mark = {"redone": True} if self.redone else {}
        return {
            "v": 1,
            "step": self.step,
            "attempt": self.attempt,
            "t": self.time or None,  # 0: not known
            **mark,
            "metrics": dict(self.metrics),
        }

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Step | None:
        """The step in a line, or None. Values that are no numbers are left out."""
        step, values = jsonl.integer(raw.get("step")), raw.get("metrics")
        if step is None or not isinstance(values, dict):
            return None
        attempt = jsonl.integer(raw.get("attempt")) or 1
        moment = jsonl.moment(raw.get("t")) or 0.0
        return cls(step, attempt, moment, numbers(values), raw.get("redone") is True)


class RewardJoiner:
    """Joins verl's numbers of a step with those of its rollouts, as ``reward.jsonl`` grows.

    The reward workers append before verl logs the step, so once a step has numbers its rollout
    records are there too. Memory is bounded: records are dropped when their step is joined.
    """

    def __init__(self, reward: Path) -> None:
        self._reward = Tail(reward)
        self.progress = 0
        """Rollouts recorded so far, with a reward or without one."""
        self._train: dict[int | None, list[Record]] = defaultdict(list)
        self._validation: dict[int | None, list[Record]] = defaultdict(list)

    def collect(self) -> None:
        """Read what was recorded since the last call. OSError when that is not known."""
        for line in self._reward.lines():
            record = jsonl.parse_line(line)
            if record is None:
                continue
            self.progress += 1
            split = self._validation if record.get("split") == "val" else self._train
            split[jsonl.integer(record.get("step"))].append(record)
        if self._reward.trouble is not None:
            raise self._reward.trouble

    def join(self, step: int, data: Mapping[str, Any]) -> Metrics:
        """All metrics of a step, under canonical names. Each step can be joined once."""
        values = verl_metrics(data)
        values.update(reward_metrics(_take(self._train, step)))
        values.update(validation_metrics(_take(self._validation, step)))
        _add_gpu_phase(values)
        return values


class StepJoiner:
    """The steps of an attempt, as its ``metrics.jsonl`` and ``reward.jsonl`` grow."""

    def __init__(self, attempt: Attempt) -> None:
        self._attempt = attempt
        self._metrics = Tail(attempt.metrics)
        self._rewards = RewardJoiner(attempt.reward)
        self._unjoined: deque[Record] = deque()
        self._last: Record = {"step": -1}
        self.is_behind = False

    @property
    def progress(self) -> int:
        """Rollouts recorded so far, with a reward or without one."""
        return self._rewards.progress

    def new_steps(self, until: float = math.inf) -> Iterator[Step]:
        """The steps logged since the last call. OSError when a file cannot be read: then no step is
        lost, and none comes without its rewards."""
        # The metrics first: a record that arrives in between then belongs to a later step.
        self._unjoined.extend(filter(None, map(jsonl.parse_line, self._metrics.lines())))
        self._rewards.collect()
        while self._unjoined:
            if (step := self._join(self._unjoined.popleft())) is not None:
                yield step
        if self._metrics.trouble is not None:
            raise self._metrics.trouble

    def _join(self, record: Record) -> Step | None:
        number, data = jsonl.integer(record.get("step")), record.get("data")
        if number is None or not isinstance(data, dict):
            return None
        if number < self._last["step"] or record == self._last:
            return None  # An earlier line again: the file was rewritten.
        self._last = record
        values = self._rewards.join(number, data)
        return Step(number, self._attempt.number, time.time(), values)


def verl_metrics(data: Mapping[str, Any]) -> Metrics:
    """verl's numbers under canonical names; verl writes NaN and infinities as null."""
    return {metrics.canonical(name): value for name, value in numbers(data).items()}


def numbers(data: Mapping[str, Any]) -> Metrics:
    """The numbers and nulls of ``data``; a NaN or infinity is None, any other value is dropped."""
    return {
        jsonl.line(name) or "": jsonl.number(value)
        for name, value in data.items()
        if value is None or (isinstance(value, int | float) and not isinstance(value, bool))
    }


def read_steps(train_log: Path) -> Iterator[Step]:
    """The steps of a ``train_log.jsonl``, in the order they were written."""
    for record in jsonl.read(train_log):
        if (step := Step.from_json(record)) is not None:
            yield step


def last_validation(train_log: Path) -> float | None:
    """The reward of the newest validation that has one."""
    rewards = (step.metrics.get(metrics.VALIDATION_REWARD) for step in read_steps(train_log))
    return next(reversed([reward for reward in rewards if reward is not None]), None)


def newest_value(train_log: Path, metric: str) -> float | None:
    """The value at the last step that has ``metric``; None for a NaN and where no step has it.

    Reads from the end of the file. Only a log that a resumed run appended to is read completely:
    its last lines need not be the last steps.
    """
    needle, has_step = json.dumps(metric, ensure_ascii=False).encode(), False
    for line in _lines_backwards(train_log):
        if has_step and needle not in line:
            continue
        if (step := _step_in(line)) is None:
            continue
        if step.attempt > 1:
            steps = reversed(history(read_steps(train_log)))
            return next((step.metrics[metric] for step in steps if metric in step.metrics), None)
        if metric in step.metrics:
            return step.metrics[metric]
        has_step = True
    return None


def newest_names(train_log: Path) -> tuple[str, ...]:
    """The metrics of the last line that is a step."""
    last = newest_step(train_log)
    return () if last is None else tuple(last.metrics)


def newest_step(train_log: Path) -> Step | None:
    """The last line that is a step, read from the end of the file."""
    steps = (step for line in _lines_backwards(train_log) if (step := _step_in(line)) is not None)
    return next(steps, None)


def recent_step_time(train_log: Path) -> float | None:
    """The seconds of one of the last steps: their median as measured, else the average between
    their lines. None for a log of a single step without a time.

    Reads only the last lines, so it is cheap for a log of any length.
    """
    found = (_step_in(line) for line in islice(_lines_backwards(train_log), _RECENT))
    steps = [step for step in found if step is not None]
    measured = [step.metrics.get(metrics.STEP_TIME) for step in steps]
    if known := [value for value in measured if value is not None]:
        return median(known)
    of_attempt = [step for step in steps if step.attempt == steps[0].attempt]
    # Steps that were read at once have one time, that of the last of them.
    first = next((step for step in of_attempt if step.time == of_attempt[-1].time), None)
    count = of_attempt[0].step - first.step if first else 0
    took = of_attempt[0].time - first.time if first else 0.0
    return took / count if count > 0 and took > 0 else None


def _step_in(line: bytes) -> Step | None:
    record = jsonl.parse_line(line)
    return None if record is None else Step.from_json(record)


def _lines_backwards(path: Path) -> Iterator[bytes]:
    """The lines of a file, last one first; none of a file that cannot be read."""
    try:
        handle = files.open_regular(path)
    except OSError:
        return
    with handle:
        yield from lines_backwards(handle.fileno())


def history(steps: Iterable[Step]) -> list[Step]:
    """One entry per step, in order: of a repeated step, the latest. An attempt that begins from the
    first step replaces all before it.

    Lines of one attempt about the same step are one entry: verl's SFT trainer logs the validation
    of a step on a separate line. A NaN of one does not replace the number of another.
    """
    latest: dict[int, Step] = {}
    attempt = 0
    for step in steps:
        if step.attempt > attempt and latest and step.step <= max(1, min(latest)):
            latest.clear()
        attempt = max(attempt, step.attempt)
        before = latest.get(step.step)
        if before is not None and before.attempt == step.attempt:
            added = {
                name: value
                for name, value in step.metrics.items()
                if value is not None or name not in before.metrics
            }
            step = replace(step, metrics={**before.metrics, **added})
        latest[step.step] = step
    return [latest[number] for number in sorted(latest)]


def _take(records: dict[int | None, list[Record]], step: int) -> list[Record]:
    """The records of a step, and those that name no step; records of older steps are dropped."""
    for old in [key for key in records if key is not None and key < step]:
        del records[old]
    return records.pop(step, []) + records.pop(None, [])


def _add_gpu_phase(values: Metrics) -> None:
    """Seconds of the step that neither waited for rewards nor saved: generation, training, sync.

    Rewards that are computed while other rollouts are generated keep nothing waiting.
    """
    step, reward = values.get(metrics.STEP_TIME), values.get(metrics.REWARD_WAIT)
    if step is None or reward is None:
        return
    save = values.get("timing_s/save_checkpoint") or 0.0
    values[metrics.GPU_PHASE] = max(0.0, step - reward - save)
