"""The reward over steps: mean, its spread inside the groups, validation."""

from __future__ import annotations

from textual.app import ComposeResult

from engine.watch import metrics
from grubrics_tui.drawing.plot import Line, Marks, Plot
from grubrics_tui.formats import fixed, percent
from grubrics_tui.history import History
from grubrics_tui.widgets.chart import Chart
from grubrics_tui.widgets.panel import Panel, waiting_hint
from grubrics_tui.widgets.readout import Reading, Readout


class RewardPanel(Panel):
    """The band is one in-group standard deviation: the signal that GRPO learns from."""

    TITLE = "reward"
    DETAIL = "mean ± std in group"

    def compose(self) -> ComposeResult:
        yield Readout()
        yield Chart()

    def show(self, history: History) -> None:
        self.query_one(Readout).show(readings(history))
        self.query_one(Chart).show(reward_plot(history), waiting_hint(history))


def readings(history: History) -> list[Reading]:
    step, validation = history.last_point(metrics.VALIDATION_REWARD)
    failed = history.last(metrics.FAILED_SHARE)
    zero_std = history.last(metrics.ZERO_STD_SHARE)
    return [
        Reading("mean", fixed(history.last(metrics.REWARD_MEAN)), "series-1", "━"),
        Reading("std", fixed(history.last(metrics.REWARD_STD)), "band", "■"),
        Reading("val", _at(fixed(validation), step), "mark", "◆"),
        *([Reading("flat groups", percent(zero_std), tone="warning")] if zero_std else []),
        *([Reading("failed", percent(failed), tone="error")] if failed else []),
    ]


def reward_plot(history: History) -> Plot:
    mean = history.series(metrics.REWARD_MEAN)
    spread = dict(history.series(metrics.REWARD_STD))
    line = Line(mean, "series-1", [spread.get(step) for step, _ in mean])
    return Plot((line,), (Marks(history.series(metrics.VALIDATION_REWARD), "mark"),))


def _at(value: str, step: int | None) -> str:
    return value if step is None else f"{value} at {step}"
