"""What the screens need of a run, whether it was launched here or is an external log."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from engine.logs.formats.names import kind_of as kind_of_metrics
from engine.run.history import metrics
from engine.run.history.live import RunWatch
from engine.run.history.train_log import Step, newest_step, read_steps
from engine.run.kinds import COMMAND, PIPELINE, Kind, find_kind
from engine.run.manifest import value_of
from engine.run.run import Run
from engine.run.state import RunState, observed_state
from grubrics_tui.settings.layout import UNKNOWN

if TYPE_CHECKING:
    from engine.doctor.health import Health
    from engine.logs.formats.external_run import ExternalRun, ExternalWatch


_FIRST_STEPS = 20
"""A program may log its metrics on several lines; its last lines are often a summary."""

Watched: TypeAlias = "Run | ExternalRun"


def kind_of(run: Watched) -> Kind | None:
    """The kind of a run; None if its manifest names no known one.

    A run of a command is shown like the kind whose metrics its first steps have.
    """
    if not isinstance(run, Run):
        return run.kind
    name = run.read_manifest().listed_kind
    if name != COMMAND:
        return find_kind(name)
    steps = islice(read_steps(run.train_log), _FIRST_STEPS)
    metrics = {metric for step in steps for metric in step.metrics}
    return kind_of_metrics(metrics) if metrics else None


def layout_of(run: Watched) -> str:
    """The name of its layout: ``own`` if a reward function scores instead of a judge."""
    kind = kind_of(run)
    if kind is None:
        is_pipeline = isinstance(run, Run) and run.read_manifest().pipeline is not None
        return PIPELINE if is_pipeline else UNKNOWN
    config = run.read_config() if isinstance(run, Run) else {}
    reward_function = value_of(config, "reward.custom_reward_function.path")
    return "own" if reward_function and kind.has_rollouts else kind.name


def watcher(run: Watched) -> RunWatch | ExternalWatch:
    """What polls the run."""
    return RunWatch(run) if isinstance(run, Run) else run.watch()


def console_of(run: Watched, attempt: int) -> Path | None:
    return run.attempt(attempt).console if isinstance(run, Run) else run.console


def source_of(run: Watched) -> str:
    """The format of an external run; empty for a run that was launched here."""
    return "" if isinstance(run, Run) else run.format.name


@dataclass(frozen=True)
class AttemptLogs:
    """``numbers`` are the attempts that had started when the log was opened."""

    run: Run
    number: int
    numbers: tuple[int, ...]

    @classmethod
    def around(cls, path: Path) -> AttemptLogs | None:
        """None for a log that is not the console log of an attempt."""
        run = Run(path.absolute().parent.parent)
        numbers = tuple(attempt.number for attempt in run.attempts())
        shown = [number for number in numbers if run.attempt(number).console == path.absolute()]
        return cls(run, shown[0], numbers) if shown else None

    @property
    def console(self) -> Path:
        return self.run.attempt(self.number).console

    @property
    def are_several(self) -> bool:
        return len(self.numbers) > 1

    @property
    def label(self) -> str:
        return f"attempt {self.number} of {self.numbers[-1]}" if self.are_several else ""

    def beside(self, count: int) -> AttemptLogs:
        """An earlier or later attempt, including those started meanwhile; stops at the ends."""
        numbers = tuple(attempt.number for attempt in self.run.attempts())
        if self.number not in numbers:
            return self
        index = max(0, min(numbers.index(self.number) + count, len(numbers) - 1))
        return replace(self, number=numbers[index], numbers=numbers)


@dataclass(frozen=True)
class OpeningValues:
    """The last values that the run logged. ``step`` is None before its first step."""

    state: RunState
    step: Step | None
    read_share = 1.0
    has_reward_std = True

    @classmethod
    def read(cls, run: Run) -> OpeningValues:
        return cls(observed_state(run), newest_step(run.train_log))

    @property
    def health(self) -> Health | None:
        """The doctor has not been asked yet."""
        return None

    def last_point(self, name: str) -> tuple[int | None, float | None]:
        """``(step, value)``; None for a metric that the newest step does not have."""
        if self.step is None or name not in self.step.metrics:
            return None, None
        return self.step.step, self.step.metrics[name]

    def last_step_time(self) -> float | None:
        return self.last_point(metrics.STEP_TIME)[1]

    def remaining(self) -> float | None:
        """Unknown: it takes the median of the step times."""
        return None
