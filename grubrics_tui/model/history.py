"""The values and events of a run that a screen has read so far, ready to be drawn."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from engine.doctor.health import UNKNOWN, Health, health_from
from engine.run.events import Event
from engine.run.finding import Finding
from engine.run.history import metrics
from engine.run.history.columns import Column, Columns, Floats
from engine.run.history.live import Update
from engine.run.history.plot import FlagKind, Flags
from engine.run.history.sweep import Sweep
from engine.run.history.train_log import Step
from engine.run.state import RunState
from grubrics_tui.model.system_history import SystemHistory
from grubrics_tui.text.terminal_text import clean_line

SAVE_TIME = "timing_s/save_checkpoint"

CHECKPOINT = FlagKind("checkpoint saved", "success", "▲", "^")
VALIDATION = FlagKind("validation", "mark", "◇", "v")
ATTEMPT = FlagKind("attempt started", "primary", "»", ">")
STOP = FlagKind("stop asked for", "quiet", "■", "#")
END = FlagKind("ended", "quiet", "┤", "]")
WARNING = FlagKind("warning", "warning", "!", "!")
STALL = FlagKind("stalled", "warning", "‖", "=")
FINDING = FlagKind("finding", "error", "◉", "*")

# In the order they are drawn: of two in one place the later one is seen.
_KINDS = (VALIDATION, CHECKPOINT, END, WARNING, STALL, STOP, ATTEMPT, FINDING)
_BY_EVENT: Mapping[str, FlagKind] = {
    "checkpoint": CHECKPOINT,
    "validation": VALIDATION,
    "resume": ATTEMPT,
    "stop": STOP,
    "stall": STALL,
    "warning": WARNING,
    "finding": FINDING,
    "end": END,
}


def flags_of(events: Iterable[Event], columns: Columns) -> tuple[Flags, ...]:
    """The run's events and, from its metrics, the steps that saved or validated.

    An event without a step is placed at the last step logged before it. The end of the run's last
    attempt is no flag: the line ends there.
    """
    named: dict[FlagKind, list[tuple[float, str]]] = {kind: [] for kind in _KINDS}
    listed = list(events)
    for index, event in enumerate(listed):
        kind = _BY_EVENT.get(event.name)
        if kind is None or (kind is END and index == len(listed) - 1):
            continue
        step = _step_of(event, columns.times)
        if step is not None:
            named[kind].append((step, _text(event, kind)))
    logged = {
        CHECKPOINT: _logged(columns.get(SAVE_TIME)),
        VALIDATION: _logged(columns.get(metrics.VALIDATION_REWARD)),
    }
    flags = (_flags(kind, steps, logged.get(kind)) for kind, steps in named.items())
    return tuple(flag for flag in flags if flag.x.size)


def _flags(kind: FlagKind, named: Sequence[tuple[float, str]], logged: Floats | None) -> Flags:
    """Of a long run thousands of steps saved: with no event among them they stay an array."""
    steps = np.empty(0) if logged is None else logged
    if not named:
        return Flags(kind, steps, (kind.name,) * steps.size)
    ordered = sorted({**dict(named), **dict.fromkeys(steps.tolist(), kind.name)}.items())
    return Flags(kind, np.array([x for x, _ in ordered]), tuple(text for _, text in ordered))


def _logged(column: Column) -> Floats:
    """The steps with a value other than 0: a phase that did not happen takes no time."""
    steps: Floats = column.steps[np.nan_to_num(column.values) != 0]
    return steps


def _step_of(event: Event, times: Column) -> float | None:
    named = event.from_step if event.step is None else event.step
    if named is not None or event.t is None or not len(times):
        return None if named is None else float(named)
    logged = int(np.searchsorted(np.maximum.accumulate(times.values), event.t, side="right"))
    return float(times.steps[logged - 1]) if logged else None


def _text(event: Event, kind: FlagKind) -> str:
    if kind is ATTEMPT:
        return f"attempt {event.attempt or '?'} started"
    text = event.message or event.reason or event.state
    return clean_line(text.encode(errors="replace"))[:60] if text else kind.name


_CONSOLE_LINES = 400
_LOOK_S = 0.5
_EVENTS = 10_000


class History:
    """Steps, system samples and the last console lines of one run.

    A step that a later attempt repeats replaces the first one, so no step is doubled.
    """

    def __init__(self) -> None:
        self.state: RunState | None = None
        self.read_share = 0.0
        """The share of a long history that was read so far."""
        self.console: deque[str] = deque(maxlen=_CONSOLE_LINES)
        self.machine = SystemHistory()
        self.columns = Columns()
        self.events: deque[Event] = deque(maxlen=_EVENTS)
        self.findings: Sequence[Finding] = ()
        """The findings of the run, root causes first."""
        self.sweep: Sweep | None = None
        """The checkpoints as ``sweep`` measured them."""
        self._is_diagnosed = False
        self._events_seen = self._diagnoses = self._sweeps = 0
        self._flags: tuple[int, tuple[Flags, ...]] = (-1, ())
        self._newest: Step | None = None
        self._median: tuple[int, float | None] = (-1, None)

    @property
    def version(self) -> int:
        """Grows with each step, event and sweep: charts of another version are out of date."""
        return self.columns.version + self._events_seen + self._diagnoses + self._sweeps

    @property
    def rewrites(self) -> int:
        """Grows when earlier values change, and not when values are added at the end."""
        return self.columns.rewrites + self._events_seen + self._diagnoses + self._sweeps

    def flags(self) -> tuple[Flags, ...]:
        """What happened to the run, along its steps."""
        if self._flags[0] != self.version:
            self._flags = (
                self.version,
                flags_of([*self.events, *_flagged(self.findings)], self.columns),
            )
        return self._flags[1]

    def set_findings(self, findings: Sequence[Finding]) -> bool:
        """Replace the findings; returns whether there is a new alert."""
        old_ids = {finding.id for finding in self.findings}
        if _flagged(findings) != _flagged(self.findings):
            self._diagnoses += 1
        self.findings, self._is_diagnosed = findings, True
        return any(finding.severity.is_alert and finding.id not in old_ids for finding in findings)

    @property
    def health(self) -> Health | None:
        """``UNKNOWN`` for a finished run that was not diagnosed yet; None for an active run without
        an alert."""
        health = health_from(self.findings) if self._is_diagnosed else UNKNOWN
        is_finished = self.state is not None and self.state.state == "finished"
        return health if is_finished or health.finding is not None else None

    def add(self, update: Update) -> None:
        self.state = update.state
        self.read_share = update.read_share
        self._newest = update.newest
        self.columns.update(update.batch, update.events, restarted=update.restarted)
        self.machine.add(update.system)
        self.events.extend(update.events)
        self._events_seen += len(update.events)
        if update.sweep is not None:
            self.sweep = update.sweep
            self._sweeps += 1
        # Clean only the lines that fit: the first poll may bring a whole file.
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
    def has_reward_std(self) -> bool:
        """Whether rewards have a standard deviation; an external log may hold only their mean."""
        is_external = self.state is not None and self.state.state == "external"
        return not is_external or self.last(metrics.REWARD_STD) is not None

    def step_times(self) -> tuple[Floats, Floats]:
        """Steps and their seconds: as measured, else the time between the lines of two steps.

        Lines are read at every poll. Of steps that are faster than that, it is the average.
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

    def last_step_time(self) -> float | None:
        """Seconds of the newest step; None if unknown."""
        if self._newest is not None and metrics.STEP_TIME in self._newest.metrics:
            return self._newest.metrics[metrics.STEP_TIME]
        times = self.step_times()[1]
        return float(times[-1]) if times.size else None

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
        """Seconds to the last step, by the log's progress bar, or else at the median step time;
        None if unknown."""
        state, step_s = self.state, self.median_step_time()
        if state is None or state.has_ended:
            return None
        step, left = self.last_point(metrics.PROGRESS_REMAINING)
        if left is not None and step == state.step:
            return left
        if step_s is None or state.total_steps is None or state.step is None:
            return None
        return max(0, state.total_steps - state.step) * step_s


def _flagged(findings: Sequence[Finding]) -> list[Event]:
    """Alerts as events: flags in the charts at the step where they began."""
    return [
        Event(name="finding", step=finding.onset_step, message=finding.title)
        for finding in findings
        if finding.severity.is_alert and finding.onset_step is not None
    ]
