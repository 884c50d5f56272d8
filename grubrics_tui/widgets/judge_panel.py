"""The judge: how long a call takes, and how long calls wait for their turn."""

from __future__ import annotations

from textual.app import ComposeResult

from engine.watch import metrics
from grubrics_tui.drawing.plot import Line, Plot
from grubrics_tui.formats import fixed, seconds
from grubrics_tui.history import History
from grubrics_tui.widgets.chart import Chart
from grubrics_tui.widgets.panel import Panel, waiting_hint
from grubrics_tui.widgets.readout import Reading, Readout

_LINES = (
    (metrics.JUDGE_LATENCY_P95, "series-2"),
    (metrics.SEMAPHORE_WAIT, "series-3"),
    (metrics.JUDGE_LATENCY, "series-1"),
)


class JudgePanel(Panel):
    """Seconds per judge call, and the wait for a free slot before it."""

    TITLE = "judge"
    DETAIL = "seconds a call"

    def compose(self) -> ComposeResult:
        yield Readout()
        yield Chart()

    def show(self, history: History) -> None:
        self.query_one(Readout).show(readings(history))
        lines = tuple(Line(history.series(name), ink) for name, ink in _LINES)
        self.query_one(Chart).show(Plot(lines), waiting_hint(history))


def readings(history: History) -> list[Reading]:
    errors = history.last(metrics.JUDGE_ERRORS)
    return [
        Reading("mean", seconds(history.last(metrics.JUDGE_LATENCY)), "series-1", "━", shape="x"),
        Reading(
            "p95", seconds(history.last(metrics.JUDGE_LATENCY_P95)), "series-2", "━", shape="*"
        ),
        Reading("wait", seconds(history.last(metrics.SEMAPHORE_WAIT)), "series-3", "━", shape="+"),
        Reading("calls", fixed(history.last(metrics.JUDGE_CALLS), 0)),
        *([Reading("errors", fixed(errors, 0), tone="error")] if errors else []),
    ]
