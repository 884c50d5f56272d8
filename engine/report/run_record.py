"""One run of a comparison, read from its files as they grow."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from engine.base import jsonl
from engine.config.keys import flatten
from engine.doctor.health import EXAMINE_AGAIN_S, Health, health_of
from engine.logs.formats.external_run import ExternalRun
from engine.run.checkpoints.find import CheckpointReport, check_checkpoint
from engine.run.figures import MachineUse, read_machine_use
from engine.run.history import metrics
from engine.run.history.columns import Columns, Floats
from engine.run.history.live import RunWatch, Update
from engine.run.manifest import FullManifest, Setting
from engine.run.run import Run
from engine.run.state import UNREADABLE, RunState

_AT_ONCE_S = 0.01


@dataclass(frozen=True)
class RunUpdate:
    """What one poll read; ``checkpoint`` and ``manifest`` are None while they are unchanged.

    ``health`` is None until the run has finished and was diagnosed.
    """

    update: Update
    checkpoint: CheckpointReport | None = None
    manifest: FullManifest | None = None
    health: Health | None = None
    machine: MachineUse | None = None
    """With ``checkpoint``: what the run took of its machine so far."""

    @property
    def is_news(self) -> bool:
        news = self.update.batch or self.update.events or self.update.restarted
        return bool(news) or self.manifest is not None or self.health is not None


class Reader(Protocol):
    """Reads the files of a run repeatedly, in its own thread."""

    def poll(self, *, examine: bool = True) -> RunUpdate:
        """What is new. ``examine``: also diagnose the run, which takes longer than reading it."""


def open_reader(run: Run | ExternalRun) -> Reader:
    return RunReader(run) if isinstance(run, Run) else ExternalReader(run)


class ExternalReader:
    """Reads the log of another program, with the configuration that the log holds, if any."""

    def __init__(self, run: ExternalRun) -> None:
        self._watch = run.watch()
        self._kind = run.kind.name
        self._config: Mapping[str, object] | None = None

    def poll(self, *, examine: bool = True) -> RunUpdate:
        update, config = self._watch.poll(), self._watch.about().config
        if config == self._config:
            return RunUpdate(update)
        self._config = config
        settings = {key: Setting(value) for key, value in flatten(config)}
        return RunUpdate(update, manifest=FullManifest(kind=self._kind, config=settings))


class RunReader:
    """Reads a run's directory."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._watch = RunWatch(run)
        self._before: tuple[str, int] | None = None
        self._examined: tuple[str, int] | None = None
        self._step: int | None = None
        self._at = 0.0

    def poll(self, *, examine: bool = True) -> RunUpdate:
        update = self._watch.poll()
        now = (update.state.state, update.state.attempt)
        health = None
        if examine and update.read_share >= 1 and self._is_due(now, update.state):
            health = health_of(self._run, update.state)
            self._examined, self._step, self._at = now, update.state.step, time.monotonic()
        # A checkpoint has many files, and the machine many samples: read only after an event.
        if now == self._before and not update.events:
            return RunUpdate(update, health=health)
        self._before = now
        return RunUpdate(
            update,
            check_checkpoint(self._run),
            self._run.read_full_manifest(),
            health,
            read_machine_use(self._run),
        )

    def _is_due(self, now: tuple[str, int], state: RunState) -> bool:
        """Whether the diagnosis may have changed since the last one."""
        if now != self._examined:
            return True
        has_steps = state.state == "running" and state.step != self._step
        return has_steps and time.monotonic() - self._at >= EXAMINE_AGAIN_S


class RunRecord:
    """One run of a comparison: its steps as one history, and what happened to it."""

    def __init__(self, run: Run | ExternalRun, id: str | None = None) -> None:
        self.run = run
        self.id = run.id if id is None else id
        self.manifest = FullManifest()
        self.state: RunState = UNREADABLE
        self.columns = Columns()
        self.checkpoint: CheckpointReport | None = None
        self.health: Health | None = None
        self.machine = MachineUse()
        self.version = 0
        """Incremented by every ``add``."""

    @classmethod
    def read(
        cls, run: Run | ExternalRun, id: str | None = None, *, examine: bool = True
    ) -> RunRecord:
        """Read everything that the files contain now. ``examine``: also diagnose the run."""
        record, reader, share = cls(run, id), open_reader(run), 0.0
        while share < 1:
            news = reader.poll(examine=examine)
            record.add(news)
            share = news.update.read_share
        return record

    def add(self, news: RunUpdate) -> None:
        update = news.update
        self.version += 1
        self.state = update.state
        self.checkpoint = news.checkpoint or self.checkpoint
        self.machine = news.machine or self.machine
        self.manifest = news.manifest if news.manifest is not None else self.manifest
        if update.state.state != "finished":
            self.health = None
        elif news.health is not None:
            self.health = news.health
        self.columns.update(update.batch, update.events, restarted=update.restarted)

    @property
    def kind(self) -> str:
        return self.manifest.kind or "?"

    def values(self, metric: str, until: float | None = None) -> tuple[Floats, Floats]:
        """``(steps, values)`` without NaN, up to and including step ``until``."""
        column = self.columns.get(metric)
        selected = ~np.isnan(column.values)
        if until is not None:
            selected &= column.steps <= until
        return column.steps[selected], column.values[selected]

    def steps(self) -> Floats:
        """The steps that were trained; before step 1 there is only validation."""
        steps = self.columns.times.steps
        return steps[steps > 0]

    def step_times(self, until: float | None = None) -> Floats:
        """Seconds of each step: as measured, else the time between two steps' lines.

        Lines that were written at once are left out.
        """
        measured = self.values(metrics.STEP_TIME, until)[1]
        if measured.size:
            return measured
        steps, moments = self.columns.times.steps, self.columns.times.values
        gaps = np.diff(moments) / np.maximum(1, np.diff(steps))
        selected = (gaps > _AT_ONCE_S) & (moments[:-1] > 0)
        if until is not None:
            selected &= steps[1:] <= until
        times: Floats = gaps[selected]
        return times

    def seconds(self, until: float | None = None) -> float | None:
        """Wall time of all attempts, up to the time of step ``until``; None: unknown, as of an
        adopted log, whose lines are as old as the moment in which they were read."""
        adopted = self.manifest.adopted
        if adopted is not None and adopted.path and adopted.started is None:
            return None
        spans = self._spans()
        if until is not None:
            steps, moments = self.columns.times.steps, self.columns.times.values
            index = int(np.searchsorted(steps, until, side="right")) - 1
            if index < 0 or moments[index] <= 0:
                return None
            spans = [(start, min(end, float(moments[index]))) for start, end in spans]
        return sum(max(0.0, end - start) for start, end in spans) if spans else None

    def _spans(self) -> list[tuple[float, float]]:
        """Start and end of each attempt."""
        state = self.state
        stop = state.ended if state.has_ended else state.heartbeat
        last_line = float(self.columns.times.values.max(initial=0.0))
        if spans := self.columns.times.attempts(max(stop or 0.0, last_line)):
            return spans
        end = state.ended or state.heartbeat
        return [] if state.started is None or end is None else [(state.started, end)]


def distinct_ids(runs: Sequence[Run | ExternalRun]) -> list[str]:
    """The IDs of the runs; of two external logs with the same name the paths."""
    ids = [run.id for run in runs]
    return [
        jsonl.line(str(run.given)) or id
        if isinstance(run, ExternalRun) and ids.count(id) > 1
        else id
        for id, run in zip(ids, runs, strict=True)
    ]


def common_step(records: Sequence[RunRecord]) -> int | None:
    """The last step that every run with steps has, or None."""
    steps_of_runs = [record.steps() for record in records if record.steps().size]
    if not steps_of_runs:
        return None
    shared = steps_of_runs[0]
    for steps in steps_of_runs[1:]:
        shared = np.intersect1d(shared, steps, assume_unique=True)
    return int(shared[-1]) if shared.size else None
