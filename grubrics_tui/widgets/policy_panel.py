"""GRPO: whether the policy's updates stay healthy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from grubrics_tui.drawing.values import Fact, Plot, Writer, short
from grubrics_tui.model.history import History
from grubrics_tui.text.formats import fixed, percent
from grubrics_tui.widgets.chart import line_of
from grubrics_tui.widgets.chart_panel import ChartPanel, fact_of


@dataclass(frozen=True)
class Quantity:
    """One small chart. Of ``names`` the first that the run logs is shown."""

    label: str
    names: Sequence[str]
    write: Writer = short
    ink: str = "series-1"


KL_TERMS, PPO_KL = ("actor/kl_loss", "actor/reward_kl_penalty"), "actor/ppo_kl"

QUANTITIES = (
    Quantity("loss", ("actor/pg_loss", "actor/loss")),
    Quantity("KL", (*KL_TERMS, PPO_KL), ink="series-2"),
    Quantity("entropy", ("actor/entropy", "actor/entropy_loss"), fixed, "series-3"),
    Quantity("grad norm", ("actor/grad_norm",), fixed, "series-4"),
    Quantity("clipped", ("actor/pg_clipfrac",), percent, "series-5"),
    Quantity("length", ("response_length/mean",), lambda value: fixed(value, 0), "series-6"),
)
AT_CAP = "response_length/clip_ratio"


class PolicyPanel(ChartPanel):
    """Six small charts: no two of these quantities share a scale."""

    TITLE = "policy"
    DETAIL = "loss, KL, entropy, gradient, clipping, length"
    CHARTS = len(QUANTITIES)

    def plot(self, history: History, number: int) -> Plot:
        return quantity_plot(history, QUANTITIES[number])

    def hint(self, history: History, number: int) -> str:
        if QUANTITIES[number].label == "KL" and _has_no_kl(history):
            return "off: no KL term is logged"
        return super().hint(history, number)


def quantity_plot(history: History, quantity: Quantity) -> Plot:
    logged = (name for name in quantity.names if len(history.series(name)))
    name = next(logged, quantity.names[0])
    if name == PPO_KL and _has_no_kl(history):
        name = quantity.names[0]  # Without values, a dash: a zero would be a measurement.
    line = line_of(history, name, quantity.label, quantity.write, ink=quantity.ink)
    facts: tuple[Fact, ...] = ()
    if quantity.label == "length":
        facts = (fact_of(history, AT_CAP, "at cap", percent, tone="warning", quiet_at_zero=True),)
    return Plot((line,), facts=facts, clock=history.columns.times)


def _has_no_kl(history: History) -> bool:
    """Whether neither loss nor reward has a KL term, and PPO's own estimate says nothing: it is 0
    where each batch is trained on once."""
    estimate = history.series(PPO_KL)
    is_silent = len(estimate) > 0 and not np.nan_to_num(estimate.values).any()
    return is_silent and not any(len(history.series(name)) for name in KL_TERMS)
