"""SFT: gradient norm and learning rate over steps."""

from __future__ import annotations

from textual.app import ComposeResult

from grubrics_tui.drawing.plot import Line, Plot
from grubrics_tui.formats import fixed, scientific
from grubrics_tui.history import History
from grubrics_tui.widgets.chart import Chart
from grubrics_tui.widgets.panel import Panel, waiting_hint
from grubrics_tui.widgets.readout import Reading, Readout

GRAD_NORM = "train/grad_norm"
LEARNING_RATE = "train/lr"
TOKENS = "train/global_tokens"


class OptimiserPanel(Panel):
    """Two charts, since the two quantities share no scale."""

    TITLE = "optimiser"
    DETAIL = "gradient norm and learning rate"

    def compose(self) -> ComposeResult:
        yield Readout()
        yield Chart(id="norm")
        yield Chart(id="rate")

    def show(self, history: History) -> None:
        self.query_one(Readout).show(
            [
                Reading("grad norm", fixed(history.last(GRAD_NORM)), "series-2", "━"),
                Reading("lr", scientific(history.last(LEARNING_RATE)), "series-3", "━"),
                Reading("tokens", fixed(history.last(TOKENS), 0)),
            ]
        )
        hint = waiting_hint(history)
        norm, rate = history.series(GRAD_NORM), history.series(LEARNING_RATE)
        self.query_one("#norm", Chart).show(Plot((Line(norm, "series-2"),)), hint)
        self.query_one("#rate", Chart).show(Plot((Line(rate, "series-3"),)))
