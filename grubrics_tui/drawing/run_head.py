"""Three lines about a run: its state and time, its progress, its last values.

They need no NumPy, so that they are on the screen before the charts are imported.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Protocol

from engine.base.quantities import (
    MISSING,
    format_duration,
    format_fixed,
    format_percent,
    format_seconds,
)
from engine.run.columns import format_step
from engine.run.history import metrics
from engine.run.kinds import SFT
from engine.run.state import GROWING, RunState, describe
from grubrics_tui.drawing.looks import look_of
from grubrics_tui.drawing.spans import Row, Span, bar, clipped, justify

if TYPE_CHECKING:
    from engine.doctor.health import Health


class RunValues(Protocol):
    """What is known of a run by now."""

    @property
    def state(self) -> RunState | None: ...

    @property
    def read_share(self) -> float: ...

    @property
    def health(self) -> Health | None: ...

    @property
    def has_reward_std(self) -> bool: ...

    def last_point(self, name: str) -> tuple[int | None, float | None]: ...

    def last_step_time(self) -> float | None: ...

    def remaining(self) -> float | None: ...


def draw_run_head(
    run_id: str, kind: str, values: RunValues, width: int, *, source: str = "", ascii_only: bool
) -> list[Row]:
    """``kind`` is that of the run's layout; ``source`` is the format of an external run."""
    state = values.state
    if state is None:
        return [[Span(run_id, bold=True)], [], []]
    last = _losses(values) if kind == SFT.name else _rewards(values, kind)
    share = f"reading the history: {format_percent(values.read_share)}"
    reading = [Span(share, "warning")] if values.read_share < 1 else []
    return [
        justify(_title(values, state, run_id, width), _times(values, source), width),
        _progress(values, state, width, ascii_only),
        [*last, *_value("step", format_seconds(values.last_step_time())), *reading],
    ]


def _times(values: RunValues, source: str) -> Row:
    """Time spent and left; for an external run, its format and an ETA while it grows."""
    state, remaining = values.state, values.remaining()
    if state is None or state.state != "external":
        return [] if state is None else elapsed(state, remaining)
    if values.read_share < 1:
        return [Span(f"{source}, reading: {format_percent(values.read_share)}", "quiet")]
    ahead = [Span("   ETA ", "quiet"), Span(format_duration(remaining))] if remaining else []
    return [Span(source, "quiet"), *(ahead if state.reason == GROWING else [])]


def _title(values: RunValues, state: RunState, run_id: str, width: int) -> Row:
    glyph, ink = look_of(state.word, values.health)
    word = describe(state) if state.state == "external" else state.word
    room = max(12, width - len(word) - 34)
    name = clipped(run_id, room)
    attempt = [Span(f"  attempt {state.attempt}", "warning")] if state.attempt > 1 else []
    return [Span(f"{glyph} {word}", ink, bold=True), Span(f"  {name}", bold=True), *attempt]


def elapsed(state: RunState, remaining: float | None) -> Row:
    """Time since the start, and the ETA of a run that makes progress."""
    took = format_duration(state.elapsed(time.time()))
    row = [Span("took " if state.has_ended else "elapsed ", "quiet"), Span(took)]
    if not state.has_ended and state.state not in ("stalled", "stopping"):
        row += [
            Span("   ETA ", "quiet"),
            Span(MISSING if remaining is None else format_duration(remaining)),
        ]
    return row


def _progress(values: RunValues, state: RunState, width: int, ascii_only: bool) -> Row:
    if state.total_steps is None:
        return [Span(f"step {format_step(state.step, None)}")]
    if state.total_steps == 0:
        return [Span(format_step(state.step, 0))]
    label = f"step {format_step(state.step, state.total_steps)}  "
    share = (state.step or 0) / state.total_steps if state.total_steps else 0.0
    percent = f" {share:4.0%}"
    room = max(4, width - len(label) - len(percent))
    _, ink = look_of(state.word, values.health)
    return [Span(label), *bar(share, room, ink, ascii_only=ascii_only), Span(percent)]


def _rewards(values: RunValues, kind: str) -> Row:
    mean, std = _last(values, metrics.REWARD_MEAN), _last(values, metrics.REWARD_STD)
    step, validation = values.last_point(metrics.VALIDATION_REWARD)
    judge = _last(values, metrics.JUDGE_LATENCY)
    is_external = values.state is not None and values.state.state == "external"
    unjudged = kind == "own" or is_external
    spread = f" ± {format_fixed(std)}" if values.has_reward_std else ""
    return [
        *_value("reward", format_fixed(mean) + spread, "series-1"),
        *_value("val", format_fixed(validation) + ("" if step is None else f" at {step}"), "mark"),
        *(_value("judge", format_seconds(judge)) if judge is not None or not unjudged else []),
        *_phase(values),
    ]


def _phase(values: RunValues) -> Row:
    """``phase 2 of 3`` of a curriculum."""
    phase, phases = (
        _last(values, metrics.CURRICULUM_PHASE),
        _last(values, metrics.CURRICULUM_PHASES),
    )
    if phase is None or phases is None:
        return []
    return _value("phase", f"{phase:.0f} of {phases:.0f}")


def _losses(values: RunValues) -> Row:
    step, validation = values.last_point(metrics.VALIDATION_LOSS)
    at_step = "" if step is None else f" at {step}"
    return [
        *_value("loss", format_fixed(_last(values, metrics.TRAIN_LOSS), 4), "series-1"),
        *_value("val", format_fixed(validation, 4) + at_step, "mark"),
    ]


def _last(values: RunValues, name: str) -> float | None:
    return values.last_point(name)[1]


def _value(label: str, value: str, ink: str = "") -> Row:
    return [Span(f"{label} ", "quiet"), Span(value, ink, bold=bool(ink)), Span("   ")]
