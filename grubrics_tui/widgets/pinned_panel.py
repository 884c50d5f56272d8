"""Metrics that a person chose to see."""

from __future__ import annotations

from grubrics_tui.drawing.values import Plot
from grubrics_tui.model.history import History
from grubrics_tui.widgets.chart_panel import ChartPanel
from grubrics_tui.widgets.validation_panel import metrics_plot


class PinnedPanel(ChartPanel):
    """One metric, or several over each other."""

    def __init__(self, metrics: tuple[str, ...]) -> None:
        super().__init__()
        self._metrics = metrics
        self.TITLE = metrics[0] if len(metrics) == 1 else f"{metrics[0]} +{len(metrics) - 1}"
        self.DETAIL = "pinned"

    def plot(self, history: History, number: int) -> Plot:
        return metrics_plot(history, self._metrics)
