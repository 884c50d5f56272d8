"""SFT: gradient norm and learning rate over steps."""

from __future__ import annotations

from functools import partial

from grubrics_tui.drawing.values import Plot
from grubrics_tui.model.history import History
from grubrics_tui.text.formats import fixed, scientific
from grubrics_tui.widgets.chart import line_of
from grubrics_tui.widgets.chart_panel import ChartPanel, fact_of

GRAD_NORM = "train/grad_norm"
LEARNING_RATE = "train/lr"
TOKENS = "train/global_tokens"


class OptimiserPanel(ChartPanel):
    """Two charts, since the two quantities share no scale."""

    TITLE = "optimiser"
    DETAIL = "gradient norm and learning rate"
    CHARTS = 2

    def plot(self, history: History, number: int) -> Plot:
        return norm_plot(history) if number == 0 else rate_plot(history)


def norm_plot(history: History) -> Plot:
    return Plot(
        (line_of(history, GRAD_NORM, "grad norm", fixed, ink="series-2"),),
        facts=(fact_of(history, TOKENS, "tokens", partial(fixed, decimals=0)),),
        clock=history.columns.times,
    )


def rate_plot(history: History) -> Plot:
    line = line_of(history, LEARNING_RATE, "lr", scientific, ink="series-3")
    return Plot((line,), clock=history.columns.times)
