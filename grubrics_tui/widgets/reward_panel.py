"""The reward over steps: mean, its spread inside the groups, extremes, validation."""

from __future__ import annotations

import math

from engine.history import metrics
from grubrics_tui.drawing.values import Band, Marks, Plot
from grubrics_tui.model.history import History
from grubrics_tui.text.formats import fixed, percent
from grubrics_tui.widgets.chart import line_of
from grubrics_tui.widgets.chart_panel import ChartPanel, fact_of, values_of


class RewardPanel(ChartPanel):
    """The band is one in-group standard deviation: the signal that GRPO learns from."""

    TITLE = "reward"

    def plot(self, history: History, number: int) -> Plot:
        self.note("mean ± std in group" if history.tells_spread else "mean")
        return reward_plot(history)


def reward_plot(history: History) -> Plot:
    bands = (_spread(history), _extremes(history))
    mean = line_of(history, metrics.REWARD_MEAN, "mean", fixed, bands=bands)
    held_out = history.series(metrics.VALIDATION_REWARD)
    flat, failed = metrics.ZERO_STD_SHARE, metrics.FAILED_SHARE
    return Plot(
        (mean,),
        (Marks(held_out.steps, held_out.values, "val", fixed),),
        history.flags(),
        (
            fact_of(history, metrics.REWARD_MIN, "min", fixed),
            fact_of(history, metrics.REWARD_MAX, "max", fixed),
            fact_of(history, flat, "flat groups", percent, tone="warning", quiet_at_zero=True),
            fact_of(history, failed, "failed", percent, tone="error", quiet_at_zero=True),
        ),
        clock=history.columns.times,
    )


def _spread(history: History) -> Band:
    """One standard deviation inside the groups, on either side of the mean."""
    mean, std = history.series(metrics.REWARD_MEAN), history.series(metrics.REWARD_STD)
    half = std.at(mean.steps, missing=math.nan)
    fact = values_of(history, metrics.REWARD_STD, "std", fixed)
    return Band("spread", mean.values - half, mean.values + half, (fact,))


def _extremes(history: History) -> Band:
    """From the lowest to the highest reward, which the legend names in any case."""
    mean = history.series(metrics.REWARD_MEAN)
    low, high = history.series(metrics.REWARD_MIN), history.series(metrics.REWARD_MAX)
    return Band(
        "extremes",
        low.at(mean.steps, missing=math.nan),
        high.at(mean.steps, missing=math.nan),
    )
