"""What a person must know before the numbers: why a run waits, failed or ended."""

from __future__ import annotations

from textual.content import Content
from textual.widgets import Static

from engine.findings.finding import Finding, Severity
from engine.logs.error_lines import last_errors
from engine.runs.state import RunState
from grubrics_tui.drawing.findings import LOOKS
from grubrics_tui.drawing.looks import look_of
from grubrics_tui.model.history import History
from grubrics_tui.text.terminal_text import clean_text

_ERROR_LINES = 3
_HINT = "   f shows why"


class Banner(Static):
    """Hidden while a run simply goes on."""

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
        """Cut the lines to the new width: a run that has ended is not shown again by itself."""
        if self._shown is not None:
            self.show(self._shown)

    def show(self, history: History) -> None:
        self._shown = history
        state = history.state
        lines = [] if state is None else message(state, history)
        self.display = bool(lines)
        if state is None or not lines:
            return
        look, ink = _look(state, history)
        self.set_classes(f"-{look}")
        head, *others = lines
        first = Content.styled(head, f"bold ${ink}")
        first = self._cut(first) if head.endswith(_HINT) else first
        quiet = [self._cut(Content.styled(line, "$quiet")) for line in others]
        self.update(Content("\n").join([first, *quiet]))

    def _cut(self, line: Content) -> Content:
        """In one row. Of trouble that takes more, the key that tells the rest stays in sight."""
        kept = len(_HINT) if line.plain.endswith(_HINT) else 0
        if line.cell_length <= self._room:
            return line
        told = line[: len(line) - kept].truncate(self._room - kept, ellipsis=True)
        return told + line[len(line) - kept :]

    @property
    def _room(self) -> int:
        return max(20, self.app.size.width - 6)


def message(state: RunState, history: History) -> list[str]:
    """The headline and, for a run that failed, the last lines that say why."""
    if state.state in ("running", "foreign"):
        return _trouble(history)
    if state.state == "queued" and state.reason:
        return [f"queued: {state.reason}"]
    if state.state in ("starting", "queued"):
        return [f"{state.state}: waiting for {state.waiting_for or 'its first sign of life'}"]
    if state.state == "finished":
        return _ended(state, history)
    head = f"{state.state}: {state.reason or 'no reason was recorded'}"
    if state.state == "stalled" or state.state == "stopping":
        return [head, *_trouble(history)]
    return [head, *(_trouble(history) or last_errors(history.console, _ERROR_LINES))]


def _ended(state: RunState, history: History) -> list[str]:
    """What makes a finished run worthless comes first."""
    done = state.reason or "finished: every step was done"
    keys = "v shows the verdict, e writes the log entry"
    if history.health is not None and history.health.finding is not None:
        title, cause = _trouble(history)
        return [f"! {state.word}, unhealthy: {title.split(' ', 1)[1]}", cause, f"{done}   {keys}"]
    return [state.reason or f"{done}   {keys}", *_trouble(history)]


def _alarms(history: History) -> list[Finding]:
    return [finding for finding in history.findings if finding.severity.is_alarm]


def _trouble(history: History) -> list[str]:
    """The root of the trouble in two lines."""
    if not (alarms := _alarms(history)):
        return []
    root, more = alarms[0], len(alarms) - 1
    since = f" since {root.onset}" if root.onset else ""
    others = f"   and {more} more" if more else ""
    shape, _ = LOOKS[root.severity]
    return [clean_text(f"{shape} {root.title}{since}{others}{_HINT}"), clean_text(root.cause)]


def _look(state: RunState, history: History) -> tuple[str, str]:
    """The class of the banner and the colour of its headline."""
    alarms = _alarms(history)
    if state.state in ("running", "foreign") and alarms:
        bad = alarms[0].severity is not Severity.WARNING
        return ("alarm", "error") if bad else ("worry", "warning")
    if state.state == "finished" and history.health is not None:
        if history.health.finding is not None:
            return "worry", "warning"
        if not history.health.is_known:
            return "unexamined", look_of(state.word, history.health)[1]
    return state.word, look_of(state.word, history.health)[1]
