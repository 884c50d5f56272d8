"""Three lines: the run and its state, progress and time, the last values."""

from __future__ import annotations

import time

from engine.history import metrics
from engine.runs.columns import format_step
from engine.runs.kinds import SFT
from engine.runs.state import GROWING, RunState, describe
from grubrics_tui.drawing.looks import look_of
from grubrics_tui.drawing.spans import Row, Span, bar, justify
from grubrics_tui.model.history import History
from grubrics_tui.text.formats import MISSING, duration, fixed, percent, seconds
from grubrics_tui.widgets.chart_panels import VALIDATION_LOSS
from grubrics_tui.widgets.span_widget import SpanWidget

_TICK_S = 1.0


class RunHeader(SpanWidget):
    """Redrawn only if one of its values changed."""

    DEFAULT_CSS = "RunHeader { height: 3; margin: 0 1; padding: 0 1; }"

    def __init__(self, run_id: str, kind: str, source: str = "") -> None:
        """``source`` names the format of an external run."""
        super().__init__()
        self._run_id, self._kind, self._source = run_id, kind, source
        self._history: History | None = None
        self._shown: list[Row] = []
        self._next: list[Row] | None = None
        self._drawn = 0.0

    def on_mount(self) -> None:
        super().on_mount()
        self.set_interval(_TICK_S, self._tick)

    def show(self, history: History) -> None:
        self._history = history
        self._refresh()

    def draw(self, width: int, height: int) -> list[Row]:
        self._shown = self._next or self._rows(width)
        return self._shown

    def _tick(self) -> None:
        """Update the clock, unless a step has just redrawn the header."""
        if time.monotonic() - self._drawn > _TICK_S * 0.95:
            self._refresh()

    def _refresh(self) -> None:
        self._drawn = time.monotonic()
        rows = self._rows(self.size.width)
        if rows != self._shown:
            self._next = rows
            self.redraw()
            self._next = None

    def _rows(self, width: int) -> list[Row]:
        if self._history is None or self._history.state is None:
            return [[Span(self._run_id, bold=True)], [], []]
        history, state = self._history, self._history.state
        values = _losses(history) if self._kind == SFT.name else _rewards(history, self._kind)
        times = history.step_times()[1]
        step_s = float(times[-1]) if times.size else None
        share = f"reading the history: {percent(history.read_share)}"
        reading = [Span(share, "warning")] if history.read_share < 1 else []
        return [
            justify(_title(history, state, self._run_id, width), self._times(history), width),
            _progress(history, state, width, self.ascii_only),
            [*values, *_value("step", seconds(step_s)), *reading],
        ]

    def _times(self, history: History) -> Row:
        """Time spent and left; for an external run, its format and an ETA while it grows."""
        state, remaining = history.state, history.remaining()
        if state is None or state.state != "foreign":
            return [] if state is None else _elapsed(state, remaining)
        if history.read_share < 1:
            return [Span(f"{self._source}, reading: {percent(history.read_share)}", "quiet")]
        ahead = [Span("   ETA ", "quiet"), Span(duration(remaining))] if remaining else []
        return [Span(self._source, "quiet"), *(ahead if state.reason == GROWING else [])]


def _title(history: History, state: RunState, run_id: str, width: int) -> Row:
    glyph, ink = look_of(state.word, history.health)
    word = describe(state) if state.state == "foreign" else state.word
    room = max(12, width - len(word) - 34)
    name = run_id if len(run_id) <= room else f"{run_id[: room - 1]}…"
    attempt = [Span(f"  attempt {state.attempt}", "warning")] if state.attempt > 1 else []
    return [Span(f"{glyph} {word}", ink, bold=True), Span(f"  {name}", bold=True), *attempt]


def _elapsed(state: RunState, remaining: float | None) -> Row:
    """Time since the start, and the ETA of a run that makes progress."""
    took = duration(state.elapsed(time.time()))
    row = [Span("took " if state.has_ended else "elapsed ", "quiet"), Span(took)]
    # A stalled run has no ETA.
    if not state.has_ended and state.state != "stalled":
        row += [
            Span("   ETA ", "quiet"),
            Span(MISSING if remaining is None else duration(remaining)),
        ]
    return row


def _progress(history: History, state: RunState, width: int, ascii_only: bool) -> Row:
    if state.state == "foreign" and state.total_steps is None:
        return [Span(f"step {MISSING if state.step is None else state.step}")]
    if state.total_steps == 0:
        return [Span(format_step(state.step, 0))]
    label = f"step {format_step(state.step, state.total_steps)}  "
    share = (state.step or 0) / state.total_steps if state.total_steps else 0.0
    percent = f" {share:4.0%}"
    room = max(4, width - len(label) - len(percent))
    _, ink = look_of(state.word, history.health)
    return [Span(label), *bar(share, room, ink, ascii_only=ascii_only), Span(percent)]


def _rewards(history: History, kind: str) -> Row:
    mean, std = history.last(metrics.REWARD_MEAN), history.last(metrics.REWARD_STD)
    step, validation = history.last_point(metrics.VALIDATION_REWARD)
    judge = history.last(metrics.JUDGE_LATENCY)
    is_external = history.state is not None and history.state.state == "foreign"
    unjudged = kind == "own" or is_external
    spread = f" ± {fixed(std)}" if history.has_reward_std else ""
    return [
        *_value("reward", fixed(mean) + spread, "series-1"),
        *_value("val", fixed(validation) + ("" if step is None else f" at {step}"), "mark"),
        *(_value("judge", seconds(judge)) if judge is not None or not unjudged else []),
    ]


def _losses(history: History) -> Row:
    step, validation = history.last_point(VALIDATION_LOSS)
    return [
        *_value("loss", fixed(history.last(metrics.TRAIN_LOSS), 4), "series-1"),
        *_value("val", fixed(validation, 4) + ("" if step is None else f" at {step}"), "mark"),
    ]


def _value(label: str, value: str, ink: str = "") -> Row:
    return [Span(f"{label} ", "quiet"), Span(value, ink, bold=bool(ink)), Span("   ")]
