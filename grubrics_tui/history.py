"""What a screen has seen of a run so far, ready to be drawn."""

from __future__ import annotations

import statistics
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any

from engine.runs.state import RunState
from engine.watch import metrics
from engine.watch.live import Update
from engine.watch.train_log import Step
from grubrics_tui.drawing.braille import Point
from grubrics_tui.terminal_text import clean_line

_SYSTEM_SAMPLES = 2000
_CONSOLE_LINES = 5000


class History:
    """Steps, system samples and console lines of one run.

    A step that a later attempt did again replaces the first one: one history, nothing doubled.
    """

    def __init__(self) -> None:
        self.state: RunState | None = None
        self.console: deque[str] = deque(maxlen=_CONSOLE_LINES)
        self.system: deque[dict[str, Any]] = deque(maxlen=_SYSTEM_SAMPLES)
        self._steps: dict[int, Step] = {}
        self._fresh: list[str] = []

    def add(self, update: Update) -> None:
        self.state = update.state
        self._steps.update({step.step: step for step in update.steps})
        self.system.extend(update.system)
        # Only what fits is worth cleaning: a first look may bring a whole file.
        recent = update.console[-_CONSOLE_LINES:]
        cleaned = [clean_line(line) for line in recent]
        self.console.extend(cleaned)
        self._fresh = (self._fresh + cleaned)[-_CONSOLE_LINES:]

    def take_console(self) -> list[str]:
        """Console lines that came since this was last asked."""
        fresh, self._fresh = self._fresh, []
        return fresh

    @property
    def steps(self) -> list[Step]:
        """Every step in order."""
        return [self._steps[number] for number in sorted(self._steps)]

    def series(self, name: str) -> list[Point]:
        """``(step, value)`` of a metric over the steps that have it; None is a gap."""
        return [(s.step, s.metrics[name]) for s in self.steps if name in s.metrics]

    def last(self, name: str) -> float | None:
        """The metric's value at the last step that has it."""
        return self.last_point(name)[1]

    def last_point(self, name: str) -> tuple[int | None, float | None]:
        """``(step, value)`` of the last step that has the metric."""
        for step in reversed(self.steps):
            if name in step.metrics:
                return step.step, step.metrics[name]
        return None, None

    def step_times(self) -> list[tuple[int, float]]:
        """``(step, seconds)``: as measured, else the time between two steps' lines."""
        return list(_step_times(self.steps))

    def median_step_time(self) -> float | None:
        """Seconds; the first step counts only while it is alone, since it warms up."""
        times = [value for _, value in self.step_times()]
        return statistics.median(times[1:] or times) if times else None

    def remaining(self) -> float | None:
        """Seconds to the last step at the median step time; None when it cannot be told."""
        state, each = self.state, self.median_step_time()
        if state is None or state.has_ended or each is None:
            return None
        if state.total_steps is None or state.step is None:
            return None
        return max(0, state.total_steps - state.step) * each


def _step_times(steps: Iterable[Step]) -> Iterator[tuple[int, float]]:
    previous: Step | None = None
    for step in steps:
        measured = step.metrics.get(metrics.STEP_TIME)
        if measured is not None:
            yield step.step, measured
        elif previous is not None and previous.attempt == step.attempt and previous.time:
            yield step.step, (step.time - previous.time) / max(1, step.step - previous.step)
        previous = step
