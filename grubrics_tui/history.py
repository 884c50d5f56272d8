"""What a screen has seen of a run so far, ready to be drawn."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np

from engine.runs.state import RunState
from engine.watch import metrics
from engine.watch.columns import Column, Columns, Floats
from engine.watch.live import Update
from grubrics_tui.drawing.values import Flags
from grubrics_tui.flags import flags_of
from grubrics_tui.machine import Machine
from grubrics_tui.terminal_text import clean_line

_CONSOLE_LINES = 400
_EVENTS = 10_000


class History:
    """Steps, system samples and the last console lines of one run.

    A step that a later attempt did again replaces the first one: one history, nothing doubled.
    """

    def __init__(self) -> None:
        self.state: RunState | None = None
        self.read_share = 0.0
        """How much of a long history was read so far: the rest is on its way."""
        self.console: deque[str] = deque(maxlen=_CONSOLE_LINES)
        self.machine = Machine()
        self.columns = Columns()
        self.events: deque[dict[str, Any]] = deque(maxlen=_EVENTS)
        self._events_seen = 0
        self._flags: tuple[int, tuple[Flags, ...]] = (-1, ())

    @property
    def version(self) -> int:
        """Grows with each step and event: what is drawn from them has changed since."""
        return self.columns.version + self._events_seen

    def flags(self) -> tuple[Flags, ...]:
        """What happened to the run, along its steps."""
        if self._flags[0] != self.version:
            self._flags = (self.version, flags_of(self.events, self.columns))
        return self._flags[1]

    def add(self, update: Update) -> None:
        self.state = update.state
        self.read_share = update.read_share
        for step in update.steps:
            self.columns.add(step)
        if update.batch is not None:
            self.columns.merge(update.batch)
        self.machine.add(update.system)
        self.events.extend(update.events)
        self._events_seen += len(update.events)
        # Only what fits is worth cleaning: a first look may bring a whole file.
        self.console.extend(clean_line(line) for line in update.console[-_CONSOLE_LINES:])

    def series(self, name: str) -> Column:
        """A metric over the steps that have it; NaN is a gap."""
        return self.columns.get(name)

    def last(self, name: str) -> float | None:
        """The metric's value at the last step that has it."""
        return self.last_point(name)[1]

    def last_point(self, name: str) -> tuple[int | None, float | None]:
        """``(step, value)`` of the last step that has the metric."""
        return self.columns.get(name).last()

    def step_times(self) -> tuple[Floats, Floats]:
        """Steps and their seconds: as measured, else the time between two steps' lines."""
        measured = self.columns.get(metrics.STEP_TIME)
        if len(measured):
            return measured.steps, measured.values
        steps, moments = self.columns.times.steps, self.columns.times.values
        gaps = np.diff(moments) / np.maximum(1, np.diff(steps))
        known = (gaps > 0) & (moments[:-1] > 0)
        return steps[1:][known], gaps[known]

    def median_step_time(self) -> float | None:
        """Seconds; the first step counts only while it is alone, since it warms up."""
        times = self.step_times()[1]
        known = times[~np.isnan(times)]
        return float(np.median(known[1:] if known.size > 1 else known)) if known.size else None

    def remaining(self) -> float | None:
        """Seconds to the last step at the median step time; None when it cannot be told."""
        state, each = self.state, self.median_step_time()
        if state is None or state.has_ended or each is None:
            return None
        if state.total_steps is None or state.step is None:
            return None
        return max(0, state.total_steps - state.step) * each
