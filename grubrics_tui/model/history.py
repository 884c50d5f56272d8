"""What a screen has seen of a run so far, ready to be drawn."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from engine.doctor.health import UNKNOWN, Health, health_from
from engine.findings.finding import Finding
from engine.history import metrics
from engine.history.columns import Column, Columns, Floats
from engine.history.live import Update
from engine.history.train_log import Step
from engine.runs.state import RunState
from grubrics_tui.drawing.chart_data import Flags
from grubrics_tui.model.flags import flags_of
from grubrics_tui.model.system_history import SystemHistory
from grubrics_tui.text.terminal_text import clean_line

_CONSOLE_LINES = 400
_LOOK_S = 0.5
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
        self.machine = SystemHistory()
        self.columns = Columns()
        self.events: deque[dict[str, Any]] = deque(maxlen=_EVENTS)
        self.findings: Sequence[Finding] = ()
        """What the doctor says of the run, root causes first."""
        self._is_diagnosed = False
        self._events_seen = self._diagnoses = 0
        self._flags: tuple[int, tuple[Flags, ...]] = (-1, ())
        self._newest: Step | None = None
        self._median: tuple[int, float | None] = (-1, None)

    @property
    def version(self) -> int:
        """Grows with each step and event: what is drawn from them has changed since."""
        return self.columns.version + self._events_seen + self._diagnoses

    @property
    def rewrites(self) -> int:
        """Grows when something changes that was there before; until then all only gets longer."""
        return self.columns.rewrites + self._events_seen + self._diagnoses

    def flags(self) -> tuple[Flags, ...]:
        """What happened to the run, along its steps."""
        if self._flags[0] != self.version:
            self._flags = (self.version, flags_of(self._told(), self.columns))
        return self._flags[1]

    def _told(self) -> list[Mapping[str, Any]]:
        """Events of the run and, as such, what the doctor found."""
        return [*self.events, *_flagged(self.findings)]

    def diagnosed(self, findings: Sequence[Finding]) -> bool:
        """Take over what the doctor says now. Whether it has another alarm than before."""
        old_ids = {finding.id for finding in self.findings}
        if _flagged(findings) != _flagged(self.findings):
            self._diagnoses += 1
        self.findings, self._is_diagnosed = findings, True
        return any(finding.severity.is_alarm and finding.id not in old_ids for finding in findings)

    @property
    def health(self) -> Health | None:
        """Of a finished run, ``UNKNOWN`` until the doctor has looked; else None while nothing
        grave was found."""
        health = health_from(self.findings) if self._is_diagnosed else UNKNOWN
        is_finished = self.state is not None and self.state.state == "finished"
        return health if is_finished or health.finding is not None else None

    def add(self, update: Update) -> None:
        self.state = update.state
        self.read_share = update.read_share
        self._newest = update.newest
        self.columns.update(update)
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
        if self._newest is not None and name in self._newest.metrics:
            return self._newest.step, self._newest.metrics[name]
        return self.columns.get(name).last()

    @property
    def tells_spread(self) -> bool:
        """Whether rewards come with a spread. A log from elsewhere may hold their mean only."""
        is_external = self.state is not None and self.state.state == "foreign"
        return not is_external or self.last(metrics.REWARD_STD) is not None

    def step_times(self) -> tuple[Floats, Floats]:
        """Steps and their seconds: as measured, else the time between two steps' lines.

        Lines come in as often as somebody looks: of steps quicker than that, it is their average.
        """
        measured = self.columns.get(metrics.STEP_TIME)
        if len(measured):
            return measured.steps, measured.values
        steps, moments = self.columns.times.steps, self.columns.times.values
        polls = np.floor(moments / _LOOK_S)
        ends = np.append(polls[1:] != polls[:-1], True)[: polls.size]
        steps, moments = steps[ends], moments[ends]
        gaps = np.diff(moments) / np.maximum(1, np.diff(steps))
        is_known = (gaps > 0) & (moments[:-1] > 0)
        return steps[1:][is_known], gaps[is_known]

    def median_step_time(self) -> float | None:
        """Seconds; the first step counts only while it is alone, since it warms up."""
        if self._median[0] != self.columns.version:
            times = self.step_times()[1]
            known_times = times[~np.isnan(times)]
            median = (
                float(np.median(known_times[1:] if known_times.size > 1 else known_times))
                if known_times.size
                else None
            )
            self._median = (self.columns.version, median)
        return self._median[1]

    def remaining(self) -> float | None:
        """Seconds to the last step at the median step time; None if unknown."""
        state, step_s = self.state, self.median_step_time()
        if state is None or state.has_ended or step_s is None:
            return None
        if state.total_steps is None or state.step is None:
            return None
        return max(0, state.total_steps - state.step) * step_s


def _flagged(findings: Sequence[Finding]) -> list[Mapping[str, Any]]:
    """Alarms as events: they are flags in the charts, where they began."""
    return [
        {"event": "finding", "step": finding.onset_step, "message": finding.title}
        for finding in findings
        if finding.severity.is_alarm and finding.onset_step is not None
    ]
