"""Follow a run in the foreground: one line per step, until the run ends."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from statistics import median
from types import FrameType
from typing import Any

import typer

from engine.base.errors import find_lost_reader
from engine.base.quantities import format_duration, format_seconds
from engine.run.history import metrics
from engine.run.history.live import RunWatch
from engine.run.history.train_log import Step
from engine.run.run import Run
from engine.run.state import RunState, describe, observed_state
from grubrics_tui.commands.shared.output import answer, say, wait_for_more
from grubrics_tui.commands.shared.run_text import outcome


def answer_launched(run: Run, value: Mapping[str, Any], *, wait: bool, as_json: bool) -> None:
    """Print ``value`` and the state of a run that was launched; with ``wait``, when it has ended.

    Then the exit code is 1 if the run did not finish.
    """
    state = followed(run, as_json) if wait else observed_state(run)
    answer({**value, **state_json(state)}, outcome(run, state), as_json)
    if wait and not state.went_well:
        raise typer.Exit(1)


def state_json(state: RunState) -> dict[str, Any]:
    """Return the state of a run in the JSON answer of its launch."""
    return {"state": state.word, "reason": state.reason, "waiting_for": state.waiting_for}


def followed(run: Run, as_json: bool) -> RunState:
    """Print a run's progress until it ends. Ctrl-C stops the run and waits until it has exited."""
    from engine.supervise.stopping import stop_run

    out = sys.stderr if as_json else sys.stdout

    def print_line(line: str) -> None:
        say(line, to=out, flush=True)

    with parting(run):
        try:
            return follow(run, print_line)
        except KeyboardInterrupt:
            print_line(f"stopping {run.id} ...")
            stop_run(run)
            return observed_state(run)


@contextmanager
def parting(run: Run) -> Iterator[None]:
    """If something ends this command before the run, print that the run keeps running.

    The exit code is 143 after SIGTERM, 130 after Ctrl-C, and 141 if the reader of its output closes
    the pipe, 129 if its terminal is gone: 0 would say that the run finished.
    """

    def leave(number: int, frame: FrameType | None) -> None:
        raise typer.Exit(128 + number)

    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    except KeyboardInterrupt as error:
        _say_parting(run)
        raise typer.Exit(128 + signal.SIGINT) from error
    except OSError as error:
        if (reason := find_lost_reader(sys.stdout)) is None:
            raise
        with suppress(OSError):
            _say_parting(run)
        raise typer.Exit(128 + reason) from error
    except typer.Exit as error:
        if error.exit_code == 128 + signal.SIGTERM:
            _say_parting(run)
        raise
    finally:
        signal.signal(signal.SIGTERM, before)


def _say_parting(run: Run) -> None:
    state = observed_state(run)
    if not state.has_ended:
        text = f"run {run.id} keeps running. Stop it: grubrics-tui stop {run.id}"
        if state.state == "stopping":
            text = f"run {run.id} is stopping in the background"
        say(text, to=sys.stderr, flush=True)


def updates(run: Run) -> Iterator[tuple[RunState, list[Step]]]:
    """Yield the state of a run and its new steps, the last time when it has ended."""
    watch = RunWatch(run)
    while True:
        state, steps = watch.poll_steps()
        yield state, steps
        if state.has_ended:
            return
        wait_for_more()


def follow(run: Run, say: Callable[[str], None]) -> RunState:
    """Print a line per step and per change of state; return the final state."""
    last_phrase = ""
    durations: list[float] = []
    for state, steps in updates(run):
        phrase = describe(state)
        if phrase != last_phrase and not state.has_ended:
            say(phrase)
            last_phrase = phrase
        for step in steps:
            if (step_s := step.metrics.get(metrics.STEP_TIME)) is not None:
                durations.append(step_s)
            say(step_line(step, state.total_steps, eta_s(step, state, durations)))
    return state


def step_line(step: Step, total: int | None, eta: float | None) -> str:
    """Format a step as one line, with the metrics that it logged."""
    label = f"step {step.step}/{total}" if total else f"step {step.step}"
    parts = [label, *_numbers(step)]
    if eta is not None:
        parts.append(f"eta {format_duration(eta)}")
    return "  ".join(parts)


def eta_s(step: Step, state: RunState, durations: list[float]) -> float | None:
    """Estimate the seconds left from the median step time so far."""
    if state.total_steps is None or not durations:
        return None
    return max(0, state.total_steps - step.step) * median(durations)


def _numbers(step: Step) -> Iterator[str]:
    values = step.metrics
    mean, std = values.get(metrics.REWARD_MEAN), values.get(metrics.REWARD_STD)
    if metrics.REWARD_MEAN in values:
        spread = "" if std is None else f" ± {std:.3f}"
        yield f"reward {_signed(mean)}{spread}"
    if metrics.VALIDATION_REWARD in values:
        yield f"val {_signed(values[metrics.VALIDATION_REWARD])}"
    if metrics.TRAIN_LOSS in values:
        loss = values[metrics.TRAIN_LOSS]
        yield "loss nan" if loss is None else f"loss {loss:.4f}"
    for label, name in (
        ("judge", metrics.JUDGE_LATENCY),
        ("wait", metrics.SEMAPHORE_WAIT),
        ("step", metrics.STEP_TIME),
    ):
        if (value := values.get(name)) is not None:
            yield f"{label} {format_seconds(value)}"


def _signed(value: float | None) -> str:
    return "nan" if value is None else f"{value:+.3f}"
