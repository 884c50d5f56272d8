"""The lines above the panels: the run and its values; why it waits, failed or ended; what to do."""

from __future__ import annotations

import time
from collections.abc import Sequence

from textual.content import Content
from textual.widgets import Static

from engine.base.quantities import format_count
from engine.logs.log_lines import last_errors
from engine.run.categories import find_category
from engine.run.finding import Finding, Severity, launchable
from engine.run.state import RunState
from grubrics_tui.drawing.findings import LOOKS
from grubrics_tui.drawing.looks import look_of
from grubrics_tui.drawing.run_head import draw_run_head
from grubrics_tui.drawing.spans import Row, Span
from grubrics_tui.model.history import History
from grubrics_tui.text.terminal_text import clean_text
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
        if self._history is None:
            return [[Span(self._run_id, bold=True)], [], []]
        return draw_run_head(
            self._run_id,
            self._kind,
            self._history,
            width,
            source=self._source,
            ascii_only=self.ascii_only,
        )


_HINT = "   f findings"
_GAP = "   "
_WRAPPED = ("stalled", "stopping", "queued", "starting")
"""States whose reason is shown in full."""

Key = tuple[str, str]
"""A key in display form, and what it does."""


class Banner(Static):
    """Hidden while a run is active without alerts."""

    DEFAULT_CSS = """
    Banner {
        display: none;
        height: auto;
        max-height: 6;
        margin: 0 1;
        padding: 0 1;
        background: $panel;
        text-overflow: ellipsis;
        border-left: thick $primary;
        &.-failed, &.-lost, &.-alert { border-left: thick $error; }
        &.-stalled, &.-stopping, &.-stopped, &.-worry { border-left: thick $warning; }
        &.-finished { border-left: thick $success; }
    }
    """

    def __init__(self) -> None:
        super().__init__("", markup=False)
        self._shown: tuple[History, Sequence[Key]] | None = None

    def on_resize(self) -> None:
        """Cut the lines to the new width; nothing else redraws an ended run."""
        if self._shown is not None:
            self.show(*self._shown)

    def show(self, history: History, keys: Sequence[Key] = ()) -> None:
        """``keys`` are what to do next, the likeliest first; those that do not fit are left out."""
        self._shown = history, keys
        state = history.state
        lines = [] if state is None else message(state, history)
        self.display = bool(lines)
        if state is None or not lines:
            return
        css_class, ink = _style(state, history)
        self.set_classes(f"-{css_class}")
        head, *details = lines
        first = Content.styled(head, f"bold ${ink}")
        first = first if state.state in _WRAPPED else self._cut(first)
        rows = [first, *(self._cut(Content.styled(line, "$quiet")) for line in details)]
        self.update(Content("\n").join(self._with_keys(rows, keys)))

    def _with_keys(self, rows: list[Content], keys: Sequence[Key]) -> list[Content]:
        """Put the keys beside a single short line, else below the lines."""
        names = [
            Content.styled(f"{key} ", "bold $primary") + Content.styled(label, "$foreground")
            for key, label in keys
        ]
        beside = Content(_GAP).join([rows[0], *names])
        if len(rows) == 1 and beside.cell_length <= self._room:
            return [beside]
        below = Content("")
        for name in names:
            longer = Content(_GAP).join([below, name]) if below else name
            if longer.cell_length > self._room:
                break
            below = longer
        return [*rows, below] if below else rows

    def _cut(self, line: Content) -> Content:
        """Cut a line to one row; the key hint at its end stays visible."""
        hint = len(_HINT) if line.plain.endswith(_HINT) else 0
        if line.cell_length <= self._room:
            return line
        head = line[: len(line) - hint].truncate(self._room - hint, ellipsis=True)
        return head + line[len(line) - hint :]

    @property
    def _room(self) -> int:
        return max(20, self.app.size.width - 6)


def message(state: RunState, history: History) -> list[str]:
    """The headline, and what explains it."""
    if state.state in ("running", "external"):
        return _first_alert(history, _HINT)
    if state.state == "queued" and state.reason:
        return [f"queued: {state.reason}"]
    if state.state in ("starting", "queued"):
        return [f"{state.state}: waiting for {state.waiting_for or 'its supervisor'}"]
    if state.state == "finished":
        return _ended(state, history)
    reason = state.reason or "no reason recorded"
    if state.state == "stopping":
        asked = state.reason or "its processes were asked to end"
        return [f"stopping: {asked}", *_first_alert(history, _HINT)]
    if state.state == "stalled":
        return [f"stalled: {reason}", *_other_alert(history)]
    if alerts := _alerts(history):
        return [clean_text(f"{state.state}: {alerts[0].title}; {reason}")]
    return [f"{state.state}: {reason}", *last_errors(history.console, 1)]


def _ended(state: RunState, history: History) -> list[str]:
    """The lines for a finished run; an unhealthy one names its main finding first."""
    if history.health is not None and history.health.finding is not None:
        title, cause = _first_alert(history)
        return [f"! {state.word}, unhealthy: {title.split(' ', 1)[1]}", cause]
    return [state.reason or "finished: all steps completed", *_first_alert(history)]


def _other_alert(history: History) -> list[str]:
    """The first alert, unless it is the stall, which the headline tells in the same words."""
    alerts = _alerts(history)
    is_stall = bool(alerts) and alerts[0].category == "stalled"
    return [] if is_stall else _first_alert(history)


def _alerts(history: History) -> list[Finding]:
    return [finding for finding in history.findings if finding.severity.is_alert]


def _first_alert(history: History, hint: str = "") -> list[str]:
    """The first alert in two lines: title, with a hint at its end, and cause."""
    if not (alerts := _alerts(history)):
        return []
    root, count = alerts[0], len(alerts) - 1
    since = f" since {root.onset}" if root.onset else ""
    and_more = f"   and {count} more" if count else ""
    shape, _ = LOOKS[root.severity]
    return [clean_text(f"{shape} {root.title}{since}{and_more}{hint}"), clean_text(root.cause)]


def _style(state: RunState, history: History) -> tuple[str, str]:
    """The class of the banner and the color of its headline."""
    alerts = _alerts(history)
    if state.state in ("running", "external") and alerts:
        is_error = alerts[0].severity is not Severity.WARNING
        return ("alert", "error") if is_error else ("worry", "warning")
    if state.state == "finished" and history.health is not None:
        if history.health.finding is not None:
            return "worry", "warning"
        if not history.health.is_known:
            return "unexamined", look_of(state.word, history.health)[1]
    return state.word, look_of(state.word, history.health)[1]


NextStep = tuple[str, str]
"""An action of the registry, and what it does here."""

_SUMMARY, _ENTRY = ("summary", "summary"), ("log_entry", "log entry")
_FINDINGS, _STOP = ("findings", "findings"), ("stop", "stop")


def next_steps(
    history: History,
    resume_step: int | None = None,
    *,
    shows_error: bool = False,
    is_command: bool = False,
) -> list[NextStep]:
    """``resume_step`` is the checkpoint from which the run can be resumed (0: the start), None if
    it cannot. ``shows_error``: the log opens at the line that proves the first finding.
    ``is_command``: the run executes a command, which can only be run again."""
    state = history.state
    if state is None or state.state == "external":
        return []
    if state.state == "stalled":
        return [_FINDINGS, _STOP]
    if not state.has_ended:
        return []
    fix = [("launch_fix", "fix")] if launchable(history.findings) and not is_command else []
    is_unhealthy = history.health is not None and history.health.finding is not None
    about = [*fix, _FINDINGS] if is_unhealthy else []
    if is_command:
        resume = [("relaunch", "run again")]
    else:
        resume = [] if resume_step is None else [("resume", _resume_label(state, resume_step))]
    if state.state == "finished":
        return [*resume, *about, _SUMMARY, _ENTRY]
    root = first_alert(history)
    look = [("open_log", "log at the error" if shows_error else "log")]
    look += [_FINDINGS] if root is not None else []
    again = [*fix, *look, *resume] if fix and not _is_outside(root) else [*resume, *look, *fix]
    return again if is_command else [*again, ("reproduce", "reproduce")]


def first_alert(history: History) -> Finding | None:
    """The root cause, or the worst of the alerts."""
    return next((finding for finding in history.findings if finding.severity.is_alert), None)


def _is_outside(root: Finding | None) -> bool:
    """Whether the cause lies outside of the config, so that the run can continue as it is."""
    return root is not None and find_category(root.category).resumable


def _resume_label(state: RunState, step: int) -> str:
    """``resume from step 10 (3 steps again)``."""
    again = max(0, (state.step or 0) - step)
    repeats = f" ({format_count(again, 'step')} again)" if again else ""
    return f"resume from step {step}{repeats}" if step else f"resume from the start{repeats}"
