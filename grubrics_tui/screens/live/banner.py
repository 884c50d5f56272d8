"""The most important line about a run: why it waits, failed or ended."""

from __future__ import annotations

from textual.content import Content
from textual.widgets import Static

from engine.findings.finding import Finding, Severity
from engine.logs.log_lines import last_errors
from engine.runs.state import RunState
from grubrics_tui.drawing.findings import LOOKS
from grubrics_tui.drawing.looks import look_of
from grubrics_tui.model.history import History
from grubrics_tui.text.terminal_text import clean_text

_ERROR_LINES = 3
_HINT = "   f findings"


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
        &.-failed, &.-lost, &.-alarm { border-left: thick $error; }
        &.-stalled, &.-stopping, &.-stopped, &.-worry { border-left: thick $warning; }
        &.-finished { border-left: thick $success; }
    }
    """

    def __init__(self) -> None:
        super().__init__("", markup=False)
        self._shown: History | None = None

    def on_resize(self) -> None:
        """Cut the lines to the new width; nothing else redraws an ended run."""
        if self._shown is not None:
            self.show(self._shown)

    def show(self, history: History) -> None:
        self._shown = history
        state = history.state
        lines = [] if state is None else message(state, history)
        self.display = bool(lines)
        if state is None or not lines:
            return
        css_class, ink = _style(state, history)
        self.set_classes(f"-{css_class}")
        head, *details = lines
        first = Content.styled(head, f"bold ${ink}")
        first = self._cut(first) if head.endswith(_HINT) else first
        quiet = [self._cut(Content.styled(line, "$quiet")) for line in details]
        self.update(Content("\n").join([first, *quiet]))

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
    """The headline and, for a failed run, the last error lines."""
    if state.state in ("running", "foreign"):
        return _first_alert(history)
    if state.state == "queued" and state.reason:
        return [f"queued: {state.reason}"]
    if state.state in ("starting", "queued"):
        return [f"{state.state}: waiting for {state.waiting_for or 'its supervisor'}"]
    if state.state == "finished":
        return _ended(state, history)
    head = f"{state.state}: {state.reason or 'no reason recorded'}"
    if state.state == "stalled" or state.state == "stopping":
        return [head, *_first_alert(history)]
    return [head, *(_first_alert(history) or last_errors(history.console, _ERROR_LINES))]


def _ended(state: RunState, history: History) -> list[str]:
    """The lines for a finished run; an unhealthy one names its main finding first."""
    done = state.reason or "finished: all steps completed"
    keys = "v summary   e log entry"
    if history.health is not None and history.health.finding is not None:
        title, cause = _first_alert(history)
        return [f"! {state.word}, unhealthy: {title.split(' ', 1)[1]}", cause, f"{done}   {keys}"]
    return [state.reason or f"{done}   {keys}", *_first_alert(history)]


def _alerts(history: History) -> list[Finding]:
    return [finding for finding in history.findings if finding.severity.is_alarm]


def _first_alert(history: History) -> list[str]:
    """The first alert in two lines: title and cause."""
    if not (alerts := _alerts(history)):
        return []
    root, count = alerts[0], len(alerts) - 1
    since = f" since {root.onset}" if root.onset else ""
    and_more = f"   and {count} more" if count else ""
    shape, _ = LOOKS[root.severity]
    return [clean_text(f"{shape} {root.title}{since}{and_more}{_HINT}"), clean_text(root.cause)]


def _style(state: RunState, history: History) -> tuple[str, str]:
    """The class of the banner and the color of its headline."""
    alerts = _alerts(history)
    if state.state in ("running", "foreign") and alerts:
        is_error = alerts[0].severity is not Severity.WARNING
        return ("alarm", "error") if is_error else ("worry", "warning")
    if state.state == "finished" and history.health is not None:
        if history.health.finding is not None:
            return "worry", "warning"
        if not history.health.is_known:
            return "unexamined", look_of(state.word, history.health)[1]
    return state.word, look_of(state.word, history.health)[1]
