"""The panels of the live view, and which of them an external log has metrics for."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from textual import on
from textual.app import ComposeResult

from grubrics_tui.model.history import History
from grubrics_tui.model.step_phases import StepPhases
from grubrics_tui.screens.live.stacked_bar import StackedBar
from grubrics_tui.screens.live.system_panel import SystemPanel
from grubrics_tui.settings.layout import Layout, first_layout
from grubrics_tui.widgets.chart_panels import (
    JudgePanel,
    LossPanel,
    OptimizerPanel,
    PolicyPanel,
    RewardPanel,
    ThroughputPanel,
    ValidationPanel,
)
from grubrics_tui.widgets.log_view import LogView
from grubrics_tui.widgets.panel import Panel, waiting_hint

if TYPE_CHECKING:
    from engine.formats.external_run import ExternalRun

_INDENT = 4
"""Cells: a panel is narrow, and verl prints its configuration far to the right."""


class LogPanel(Panel):
    """The console log of the run's last attempt. The view reads the file itself, whenever the
    screen polls the run."""

    NAME = "log"

    def compose(self) -> ComposeResult:
        yield LogView(paced=True, indent=_INDENT)

    def show(self, history: History) -> None:
        """Do nothing: the log view reads the file itself."""

    @on(LogView.Changed)
    def show_position(self) -> None:
        """Show in the frame whether the view follows new lines."""
        view = self.query_one(LogView)
        status = "following" if view.following else "scrolled up: G follows new lines"
        self.note(f"{view.notice}   {status}" if view.notice else status)


class TimePanel(Panel):
    """One column per step, split by phase; SFT logs no phases, so its columns are whole."""

    NAME = "time"
    DETAIL = "seconds per phase"
    NEEDS = ("timing_s/", "gpu_phase_duration_s", "reward_total_duration_s")

    def __init__(self) -> None:
        super().__init__()
        self._split = StepPhases()

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


PANELS: Mapping[str, type[Panel]] = {
    panel.NAME: panel
    for panel in (
        RewardPanel,
        JudgePanel,
        TimePanel,
        PolicyPanel,
        SystemPanel,
        LogPanel,
        ValidationPanel,
        LossPanel,
        OptimizerPanel,
        ThroughputPanel,
    )
}
"""Every panel by its name. ``engine.runs.kinds`` lists the panels of each kind of run."""


def external_layout(run: ExternalRun) -> Layout:
    """The panels that an external log has metrics for; all of them before its first step."""

    def has_metrics(panel: type[Panel]) -> bool:
        if panel is LogPanel:
            return run.console is not None
        if not run.metrics:
            return bool(panel.NEEDS)
        return any(name.startswith(panel.NEEDS) for name in run.metrics)

    names = [name for name in run.kind.panels if has_metrics(PANELS[name])]
    return first_layout(run.kind.name, names)
