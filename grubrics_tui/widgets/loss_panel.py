"""SFT: training and validation loss over steps."""

from __future__ import annotations

from functools import partial

from engine.history import metrics
from grubrics_tui.drawing.values import Marks, Plot
from grubrics_tui.model.history import History
from grubrics_tui.text.formats import fixed
from grubrics_tui.widgets.chart import line_of
from grubrics_tui.widgets.chart_panel import ChartPanel

VALIDATION_LOSS = "val/loss"

_loss = partial(fixed, decimals=4)


class LossPanel(ChartPanel):
    """The loss of every step, with validation marked where it was measured."""

    TITLE = "loss"
    DETAIL = "training and validation"

    def plot(self, history: History, number: int) -> Plot:
        return loss_plot(history)


def loss_plot(history: History) -> Plot:
    held_out = history.series(VALIDATION_LOSS)
    return Plot(
        (line_of(history, metrics.TRAIN_LOSS, "train", _loss),),
        (Marks(held_out.steps, held_out.values, "validation", _loss),),
        history.flags(),
        clock=history.columns.times,
    )
