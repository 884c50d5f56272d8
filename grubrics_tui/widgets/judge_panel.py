"""The judge: how long a call takes and waits, what goes wrong, and what a step costs."""

from __future__ import annotations

from functools import partial

import numpy as np

from engine.history import metrics
from grubrics_tui.drawing.values import Fact, Plot
from grubrics_tui.model.history import History
from grubrics_tui.settings.settings import JudgePrice
from grubrics_tui.text.formats import dollars, fixed, seconds
from grubrics_tui.widgets.chart import line_of
from grubrics_tui.widgets.chart_panel import ChartPanel, fact_of

_count = partial(fixed, decimals=0)


class JudgePanel(ChartPanel):
    """Seconds per judge call, and the wait for a free slot before it.

    ``price`` is what the person says a token costs; without it nothing is said of money.
    """

    TITLE = "judge"
    DETAIL = "seconds a call"

    price: JudgePrice | None = None

    def plot(self, history: History, number: int) -> Plot:
        return judge_plot(history, self.price)


def judge_plot(history: History, price: JudgePrice | None = None) -> Plot:
    has_median = len(history.series(metrics.JUDGE_LATENCY_P50)) > 0
    middle = (metrics.JUDGE_LATENCY_P50, "p50") if has_median else (metrics.JUDGE_LATENCY, "mean")
    faults = (
        (metrics.JUDGE_TIMEOUTS, "timeouts", "warning"),
        (metrics.JUDGE_PARSE_FAILURES, "unreadable", "warning"),
        (metrics.JUDGE_ERRORS, "failed", "error"),
    )
    return Plot(
        (
            line_of(history, *middle, seconds),
            line_of(history, metrics.JUDGE_LATENCY_P95, "p95", seconds, ink="series-2"),
            line_of(history, metrics.SEMAPHORE_WAIT, "wait", seconds, ink="series-3"),
        ),
        facts=(
            fact_of(history, metrics.JUDGE_CALLS, "calls", _count),
            *(
                fact_of(history, name, label, _count, tone=tone, quiet_at_zero=True)
                for name, label, tone in faults
            ),
            *_cost(history, price),
        ),
        clock=history.columns.times,
    )


def _cost(history: History, price: JudgePrice | None) -> tuple[Fact, ...]:
    """What each step's calls cost; nothing where tokens or prices are not known."""
    sent, received = (
        history.series(name) for name in (metrics.JUDGE_TOKENS_IN, metrics.JUDGE_TOKENS_OUT)
    )
    if price is None or not len(sent):
        return ()
    answers = received.at(sent.steps, missing=np.nan)
    cost = (sent.values * price.input + answers * price.output) / 1e6
    return (Fact(sent.steps, cost, "cost", dollars),)
