"""SFT: how many tokens a second the trainer gets through."""

from __future__ import annotations

from functools import partial

import numpy as np

from engine.history.columns import Floats
from grubrics_tui.drawing.values import Fact, Line, Plot
from grubrics_tui.model.history import History
from grubrics_tui.text.formats import percent, seconds, thousands
from grubrics_tui.widgets.chart import line_of
from grubrics_tui.widgets.chart_panel import ChartPanel
from grubrics_tui.widgets.optimiser_panel import TOKENS

MFU = "train/mfu"


class ThroughputPanel(ChartPanel):
    """Tokens per second of wall-clock time, and the share of the peak arithmetic that is used."""

    TITLE = "throughput"
    DETAIL = "tokens a second"
    CHARTS = 2

    def plot(self, history: History, number: int) -> Plot:
        return speed_plot(history) if number == 0 else mfu_plot(history)


def speed_plot(history: History) -> Plot:
    steps, took = history.step_times()
    speed = Line(steps, tokens_per_second(history), "tokens/s", thousands)
    return Plot((speed,), facts=(Fact(steps, took, "step", seconds),), clock=history.columns.times)


def mfu_plot(history: History) -> Plot:
    line = line_of(history, MFU, "MFU", partial(percent, decimals=1), ink="series-2")
    return Plot((line,), clock=history.columns.times)


def tokens_per_second(history: History) -> Floats:
    """Of the steps whose time is known; NaN where the trainer logged no tokens."""
    steps, took = history.step_times()
    tokens = history.series(TOKENS).at(steps, missing=np.nan)
    speed: Floats = np.divide(tokens, took, out=np.full(steps.size, np.nan), where=took > 0)
    return speed
