"""The commands that begin training: check a recipe, launch it, go on with a run."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import median
from types import FrameType

import typer

from engine.history import metrics
from engine.history.live import RunWatch, Update
from engine.history.train_log import Step
from engine.runs.rundir import RunDir
from engine.runs.state import RunState, describe, observed_state
from grubrics_tui.commands.shared.output import say
from grubrics_tui.text.formats import seconds


def followed(run: RunDir, as_json: bool) -> RunState:
    """Follow a run in the foreground; Ctrl-C stops the run and waits until it is gone."""
    from engine.supervise.stopping import stop_run

    out = sys.stderr if as_json else sys.stdout

    def tell(line: str) -> None:
        say(line, to=out, flush=True)

    with parting(run):
        try:
            return follow(run, tell)
        except KeyboardInterrupt:
            tell(f"stopping {run.id} ...")
            stop_run(run)
            return observed_state(run)


_POLL_S = 0.3


@contextmanager
def parting(run: RunDir) -> Iterator[None]:
    """Say, when a signal ends this command before the run, that the run goes on.

    SIGTERM then ends the command with 143, and Ctrl-C with 130.
    """

    def leave(number: int, frame: FrameType | None) -> None:
        raise typer.Exit(128 + number)

    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    except KeyboardInterrupt as error:
        _say_parting(run)
        raise typer.Exit(128 + signal.SIGINT) from error
    except typer.Exit as error:
        if error.exit_code == 128 + signal.SIGTERM:
            _say_parting(run)
        raise
    finally:
        signal.signal(signal.SIGTERM, before)


def _say_parting(run: RunDir) -> None:
    state = observed_state(run)
    if not state.has_ended:
        how = "stops" if state.state == "stopping" else "goes on"
        more = "" if state.state == "stopping" else f"; grubrics-tui stop {run.id} stops it"
        say(f"run {run.id} {how} without this command{more}", to=sys.stderr, flush=True)


def updates(run: RunDir) -> Iterator[Update]:
    """Every look at a run, until the one that saw its end."""
    watch = RunWatch(run)
    while True:
        update = watch.poll()
        yield update
        if update.state.has_ended:
            return
        time.sleep(_POLL_S)


def follow(run: RunDir, say: Callable[[str], None]) -> RunState:
    """Say one line per step and per change of state; returns the state the run ended in."""
    said = ""
    durations: list[float] = []
    for update in updates(run):
        phrase = describe(update.state)
        if phrase != said and not update.state.has_ended:
            say(phrase)
            said = phrase
        for step in update.steps:
            if (duration := step.metrics.get(metrics.STEP_TIME)) is not None:
                durations.append(duration)
            say(step_line(step, update.state.total_steps, eta_s(step, update.state, durations)))
    return update.state


def step_line(step: Step, total: int | None, eta: float | None) -> str:
    """One line for one step; what the step did not log is left out."""
    label = f"step {step.step}/{total}" if total else f"step {step.step}"
    parts = [label, *_numbers(step)]
    if eta is not None:
        parts.append(f"eta {clock(eta)}")
    return "  ".join(parts)


def eta_s(step: Step, state: RunState, durations: list[float]) -> float | None:
    """Seconds left at the median step time of this run so far."""
    if state.total_steps is None or not durations:
        return None
    return max(0, state.total_steps - step.step) * median(durations)


def clock(duration: float) -> str:
    """Seconds as ``m:ss`` or ``h:mm:ss``."""
    minutes, second = divmod(round(duration), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02}:{second:02}" if hours else f"{minute}:{second:02}"


def _numbers(step: Step) -> Iterator[str]:
    values = step.metrics
    mean, std = values.get(metrics.REWARD_MEAN), values.get(metrics.REWARD_STD)
    if metrics.REWARD_MEAN in values:
        spread = "" if std is None else f" ± {std:.3f}"
        yield f"reward {_signed(mean)}{spread}"
    if metrics.VALIDATION_REWARD in values:
        yield f"val {_signed(values[metrics.VALIDATION_REWARD])}"
    if metrics.TRAIN_LOSS in values:
        yield f"loss {_plain(values[metrics.TRAIN_LOSS])}"
    for label, name in (
        ("judge", metrics.JUDGE_LATENCY),
        ("wait", metrics.SEMAPHORE_WAIT),
        ("step", metrics.STEP_TIME),
    ):
        if (duration := values.get(name)) is not None:
            yield f"{label} {seconds(duration)}"


def _signed(value: float | None) -> str:
    return "nan" if value is None else f"{value:+.3f}"


def _plain(value: float | None) -> str:
    return "nan" if value is None else f"{value:.4f}"
