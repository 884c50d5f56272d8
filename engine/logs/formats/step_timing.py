"""GRubrics' ``STEP_TIMING`` lines: how long the judge and the GPU took, by reward worker.

``STEP_TIMING step=2 gpu_phase=2.2s (...)`` and ``STEP_TIMING step=2 reward_phase: calls=6
wall=0.2s | per_reward=(...) | sem_wait=(avg=0.05s ...) | api=(avg=0.05s ...) | max_concurrent=2``.
Every worker counts steps for itself and prints its own lines, so a step's lines are joined.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from dataclasses import dataclass

from engine.logs.formats.format import LineFormat, Parser, Sample
from engine.logs.formats.names import bounded
from engine.run.history import metrics
from engine.run.history.train_log import Metrics, Step

MARK = b"STEP_TIMING"

_NUMBER = rb"([-+\d.eEnaif]{1,30})"
_STEP = re.compile(rb"STEP_TIMING step=(\d{1,15}) ")
_GPU = re.compile(rb"gpu_phase=" + _NUMBER + rb"s")
_REWARD = re.compile(rb"reward_phase: calls=(\d{1,15}) wall=" + _NUMBER + rb"s")
_WAIT = re.compile(rb"sem_wait=\(avg=" + _NUMBER + rb"s")
_API = re.compile(rb"api=\(avg=" + _NUMBER + rb"s")
_OPEN_STEPS = 64
"""Steps that may still get lines; workers do not drift further apart."""


@dataclass(frozen=True)
class TimingLine:
    """One line, in seconds; None where the line has no such value."""

    step: int
    gpu: float | None = None
    calls: int | None = None
    wall: float | None = None
    wait: float | None = None
    api: float | None = None


def parse(line: bytes) -> TimingLine | None:
    step = _STEP.search(line)
    if step is None:
        return None
    reward = _REWARD.search(line)
    timing = TimingLine(
        int(step[1]),
        _seconds(_GPU.search(line)),
        int(reward[1]) if reward else None,
        _float(reward[2]) if reward else None,
        _seconds(_WAIT.search(line)),
        _seconds(_API.search(line)),
    )
    return timing if reward or timing.gpu is not None else None


class Timing:
    """The lines of all workers about one step.

    Workers run side by side: the longest phase counts. The mean of a call weighs workers by calls.
    """

    def __init__(self) -> None:
        self._gpu: float | None = None
        self._wall: float | None = None
        self._calls = 0
        self._wait = _Mean()
        self._api = _Mean()

    def add(self, line: TimingLine) -> None:
        self._gpu = _longest(self._gpu, line.gpu)
        self._wall = _longest(self._wall, line.wall)
        self._calls += line.calls or 0
        self._wait.add(line.wait, line.calls or 0)
        self._api.add(line.api, line.calls or 0)

    def metrics(self) -> Metrics:
        """The values in the lines so far; others are missing."""
        values = {
            metrics.GPU_PHASE: self._gpu,
            metrics.REWARD_DURATION: self._wall,
            metrics.SEMAPHORE_WAIT: self._wait.value,
            metrics.JUDGE_LATENCY: self._api.value,
            metrics.JUDGE_CALLS: float(self._calls) if self._wall is not None else None,
        }
        return {name: value for name, value in values.items() if value is not None}


class StepTiming(Parser):
    """Parses a log whose only numbers are in ``STEP_TIMING`` lines.

    A step is repeated with more numbers when another worker prints it.
    """

    def __init__(self) -> None:
        self._timings: OrderedDict[int, Timing] = OrderedDict()

    def feed(self, lines: list[bytes]) -> list[Step]:
        steps: dict[int, Step] = {}
        for text in lines:
            if (line := parse(text)) is not None:
                timing = self._timings.setdefault(line.step, Timing())
                timing.add(line)
                steps[line.step] = Step(line.step, 1, 0.0, timing.metrics())
                if len(self._timings) > _OPEN_STEPS:
                    self._timings.popitem(last=False)
        return list(steps.values())


class StepTimingFormat(LineFormat):
    key, name = "step-timing", "STEP_TIMING lines of GRubrics"
    trainers, is_own = ("GRubrics",), True
    reads = (
        "seconds of the GPU and of the reward phase, judge latency, judge queue wait and calls; "
        "the lines of all workers about a step count as one step"
    )
    is_console = True
    marks = (MARK,)
    step_pattern = _STEP.pattern
    parser_class = StepTiming

    def matches(self, sample: Sample) -> bool:
        return any(MARK in line and parse(line) is not None for line in sample.lines())

    def complete_part(self, line: bytes) -> bytes:
        return line  # A value is read with its unit.


class _Mean:
    def __init__(self) -> None:
        self._sum = 0.0
        self._weight = 0

    @property
    def value(self) -> float | None:
        return self._sum / self._weight if self._weight else None

    def add(self, value: float | None, weight: int) -> None:
        if value is not None and weight:
            self._sum += value * weight
            self._weight += weight


def _longest(before: float | None, now: float | None) -> float | None:
    return max((value for value in (before, now) if value is not None), default=None)


def _seconds(match: re.Match[bytes] | None) -> float | None:
    return _float(match[1]) if match else None


def _float(text: bytes) -> float | None:
    try:
        return bounded(float(text))
    except ValueError:
        return None
