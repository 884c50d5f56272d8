"""A run that was not launched here, as the live screen follows it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from engine.base import jsonl
from engine.base.errors import UsageError
from engine.logs.formats.detect import Detected, detect, format_names
from engine.logs.formats.format import About, Format, News
from engine.logs.formats.names import kind_of
from engine.logs.formats.pulse import Pulse
from engine.run.history.live import Update
from engine.run.history.train_log import Step
from engine.run.kinds import Kind
from engine.run.state import RunState

_AT_ONCE = 2 * 1024 * 1024
_PEEK = 1024 * 1024


@dataclass(frozen=True)
class ExternalRun:
    """Files that another program's run writes. They are only read."""

    given: Path
    """The path that the user named."""
    path: Path
    """The file, or HF output folder, that is followed."""
    format: Format
    kind: Kind
    """Which panels fit its metrics."""
    metrics: frozenset[str]
    """Canonical names seen at either end of the source; empty before its first step."""

    @property
    def id(self) -> str:
        """A name that is safe to show."""
        return jsonl.line(self.format.run_name(self.given, self.path)) or "."

    @property
    def console(self) -> Path | None:
        """The file with readable lines."""
        return self.format.console_of(self.path)

    def watch(self) -> ExternalWatch:
        return ExternalWatch(self)


def open_external(path: Path, as_format: str | None = None) -> ExternalRun:
    """The run in a file or folder; UsageError when nothing known is in it."""
    log = detect(path, as_format)
    names = frozenset(_first_metrics(log))
    return ExternalRun(path, log.path, log.format, kind_of(names), names)


def read_steps(path: Path, as_format: str | None = None) -> Iterator[Step]:
    """Every step there is now, in the order they were written. Memory stays bounded."""
    log = detect(path, as_format)
    reader = log.open()
    while (news := reader.poll(_AT_ONCE)).read_share < 1.0:
        yield from news.steps
    yield from news.steps
    yield from reader.poll(_AT_ONCE).steps  # The last part is smaller than a poll.
    yield from reader.rest()


def require_steps(path: Path, as_format: str | None = None) -> Iterator[Step]:
    """``read_steps``, with a UsageError when there are none."""
    step = None
    for step in read_steps(path, as_format):
        yield step
    if step is None:
        raise UsageError(f"{path}: contains no step yet; looked for {format_names(as_format)}")


class ExternalWatch:
    """Polls the source as ``RunWatch`` polls a run directory.

    Nothing shows whether the run is still running: its state says only whether the log grows.
    """

    def __init__(self, run: ExternalRun) -> None:
        self.run = run
        self._reader = run.format.open(run.path)
        self._pulse = Pulse(run.path)
        self._newest = self._reader.last_step()
        self._step = None if self._newest is None else self._newest.step
        self._caught_up = False
        self._rest: list[Step] = []

    def poll(self) -> Update:
        """What is new, a last line without an end included, and the state after it."""
        from engine.run.history.columns import Batch  # numpy: ``poll_steps`` does without

        is_new = self._caught_up
        news = self.poll_steps()
        steps = news.steps
        if news.read_share == 1.0 and (rest := self._reader.rest()) != self._rest:
            # When such a line ends, its step comes once more, with all of its values.
            steps, self._rest = [*steps, *(_with_time(rest) if is_new else rest)], rest
            self._step = steps[-1].step if steps else self._step
        return Update(
            state=self._state(),
            batch=Batch.from_steps(steps),
            console=news.console,
            system=[],
            events=[],
            read_share=news.read_share,
            newest=None if self._caught_up else self._newest,
            restarted=news.restarted,
        )

    def poll_steps(self) -> News:
        """What is new, for a pipe. Steps without a time get the present one, but for those that
        were there at the first poll. Use either this or ``poll``."""
        news = self._reader.poll(_AT_ONCE)
        if news.restarted:
            self._newest = self._step = None
            self._rest = []
        steps = _with_time(news.steps) if self._caught_up else news.steps
        self._caught_up = self._caught_up or news.read_share == 1.0
        if steps and (self._caught_up or self._step is None):
            self._step = steps[-1].step
        return replace(news, steps=steps)

    def rest(self) -> list[Step]:
        """The steps of a last line without an end: for ``poll_steps``, once no more will come."""
        return self._reader.rest()

    def about(self) -> About:
        return self._reader.about()

    def _state(self) -> RunState:
        about = self._reader.about()
        reason = about.ended or self._pulse.feel()
        total = about.total_steps
        if total is not None and self._step is not None and self._step > total:
            total = None  # The total of an earlier start, or of something else.
        return RunState(
            "external",
            reason=reason,
            started=about.started,
            step=self._step,
            total_steps=total,
        )


def _with_time(steps: list[Step]) -> list[Step]:
    return [step if step.time else replace(step, time=time.time()) for step in steps]


def _first_metrics(log: Detected) -> set[str]:
    """The metrics of the first steps, or of the last one when the first are far away."""
    reader = log.open()
    steps = reader.poll(_PEEK).steps or reader.rest()
    if not steps and (last := reader.last_step()) is not None:
        steps = [last]
    return {name for step in steps for name in step.metrics}
