"""Where the seconds of a step go."""

from __future__ import annotations

from functools import partial

from textual.app import ComposeResult

from grubrics_tui.model.history import History
from grubrics_tui.model.step_phases import StepSplit
from grubrics_tui.screens.live.stacked_bar import StackedBar
from grubrics_tui.widgets.panel import Panel, waiting_hint


class TimePanel(Panel):
    """One column per step, split by phase; SFT logs no phases, so its columns are whole."""

    TITLE = "step time"
    DETAIL = "seconds a phase"

    def __init__(self) -> None:
        super().__init__()
        self._split = StepSplit()

    def compose(self) -> ComposeResult:
        yield StackedBar()

    def show(self, history: History) -> None:
        bar, clock = self.query_one(StackedBar), history.columns.times
        bar.show(
            partial(self._split.of, history),
            history.version,
            waiting_hint(history),
            clock,
            grows_since=history.rewrites,
        )
