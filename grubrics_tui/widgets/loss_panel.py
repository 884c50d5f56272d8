"""SFT: training and validation loss over steps."""

from __future__ import annotations

from textual.app import ComposeResult

from engine.watch import metrics
from grubrics_tui.drawing.plot import Line, Marks, Plot
from grubrics_tui.formats import fixed
from grubrics_tui.history import History
from grubrics_tui.widgets.chart import Chart
from grubrics_tui.widgets.panel import Panel, waiting_hint
from grubrics_tui.widgets.readout import Reading, Readout

VALIDATION_LOSS = "val/loss"


class LossPanel(Panel):
    """The loss of every step, with validation marked where it was measured."""

    TITLE = "loss"
    DETAIL = "training and validation"

    def compose(self) -> ComposeResult:
        yield Readout()
        yield Chart()

    def show(self, history: History) -> None:
        step, validation = history.last_point(VALIDATION_LOSS)
        at = "" if step is None else f" at {step}"
        self.query_one(Readout).show(
            [
                Reading("train", fixed(history.last(metrics.TRAIN_LOSS), 4), "series-1", "━"),
                Reading("validation", fixed(validation, 4) + at, "mark", "◆"),
            ]
        )
        line = Line(history.series(metrics.TRAIN_LOSS), "series-1")
        marks = Marks(history.series(VALIDATION_LOSS), "mark")
        self.query_one(Chart).show(Plot((line,), (marks,)), waiting_hint(history))
