"""What a person must know before the numbers: why a run waits, failed or ended."""

from __future__ import annotations

from textual.content import Content
from textual.widgets import Static

from engine.runs.state import RunState
from engine.watch.error_lines import last_errors
from grubrics_tui.history import History
from grubrics_tui.widgets.states import STATE_LOOKS

_ERROR_LINES = 3


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
        &.-failed, &.-lost { border-left: thick $error; }
        &.-stalled, &.-stopping { border-left: thick $warning; }
        &.-finished { border-left: thick $success; }
    }
    """

    def __init__(self) -> None:
        super().__init__("", markup=False)

    def show(self, history: History) -> None:
        state = history.state
        lines = [] if state is None else message(state, history)
        self.display = bool(lines)
        if state is None or not lines:
            return
        self.set_classes(f"-{state.state}")
        _, ink = STATE_LOOKS[state.state]
        head, *others = lines
        quiet = [
            Content.styled(line, "$quiet").truncate(self._room, ellipsis=True) for line in others
        ]
        self.update(Content("\n").join([Content.styled(head, f"bold ${ink}"), *quiet]))

    @property
    def _room(self) -> int:
        return max(20, self.app.size.width - 6)


def message(state: RunState, history: History) -> list[str]:
    """The headline and, for a run that failed, the last lines that say why."""
    if state.state in ("running", "foreign"):
        return []
    if state.state == "queued" and state.reason:
        return [f"queued: {state.reason}"]
    if state.state in ("starting", "queued"):
        return [f"{state.state}: waiting for {state.waiting_for or 'its first sign of life'}"]
    if state.state == "finished":
        return [
            state.reason
            or "finished: every step was done   v shows the verdict, e writes the log entry"
        ]
    head = f"{state.state}: {state.reason or 'no reason was recorded'}"
    if state.state == "stalled" or state.state == "stopping":
        return [head]
    return [head, *last_errors(history.console, _ERROR_LINES)]
