"""The panels that show charts: one chart, or several small ones."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from textual import events
from textual.app import ComposeResult
from textual.containers import Grid

from engine.base.quantities import (
    MISSING,
    format_dollars,
    format_fixed,
    format_number,
    format_percent,
    format_seconds,
    format_whole,
)
from engine.run.history import metrics
from engine.run.history.columns import Floats
from engine.run.history.plot import Band, Fact, Line, Marks, Plot, Values, Writer, sweep_line
from grubrics_tui.model.history import History
from grubrics_tui.settings.settings import JudgePrice
from grubrics_tui.widgets.chart import Chart, line_of
from grubrics_tui.widgets.panel import Panel, waiting_hint
from grubrics_tui.widgets.span_widget import CachedLines

_SMALLEST = (16, 5)
"""The smallest useful chart: cells wide and high."""


class ChartGrid(CachedLines, Grid):
    """Small charts beside and above each other."""


class ChartPanel(Panel):
    """A subclass declares the number of charts and plots each; the first is the main one."""

    DEFAULT_CSS = """
    ChartGrid { grid-gutter: 0 2; height: 1fr; overflow: hidden; }
    """

    CHARTS = 1

    _is_bare = True
    """Whether no chart has had values yet: then the first one fills the panel with its hint."""

    def plot(self, history: History, number: int) -> Plot:
        """The plot of chart ``number``. Called when the chart is drawn."""
        raise NotImplementedError

    def hint(self, history: History, number: int) -> str:
        """The text in chart ``number`` while it has no values."""
        return waiting_hint(history) if number == 0 else MISSING

    def compose(self) -> ComposeResult:
        with ChartGrid():
            for _ in range(self.CHARTS):
                yield Chart()

    def show(self, history: History) -> None:
        if self._is_bare and not all(
            self.plot(history, number).is_empty for number in range(self.CHARTS)
        ):
            self._is_bare = False
            self._arrange()
        for number, chart in enumerate(self.query(Chart)):
            chart.show(
                partial(self.plot, history, number),
                history.version,
                self.hint(history, number),
                grows_since=history.rewrites,
            )

    def on_resize(self, event: events.Resize) -> None:
        self._arrange()

    def _arrange(self) -> None:
        """Show as many small charts as fit; the others appear when the panel is zoomed."""
        columns, rows = arranged(1 if self._is_bare else self.CHARTS, *self.content_size)
        self.query_one(ChartGrid).styles.grid_size_columns = columns
        for number, chart in enumerate(self.query(Chart)):
            chart.display = number < columns * rows


def arranged(
    count: int, width: int, height: int, smallest: tuple[int, int] = _SMALLEST
) -> tuple[int, int]:
    """Columns and rows of ``count`` charts: as few columns as leave each row high enough."""
    rows = max(1, min(count, height // smallest[1]))
    columns = max(1, min(-(-count // rows), width // smallest[0]))
    return columns, rows


def fact_of(
    history: History,
    name: str,
    label: str,
    write: Writer,
    tone: str = "",
) -> Fact:
    """A metric that is shown as a value in the legend only."""
    column = history.series(name)
    return Fact(column.steps, column.values, label, write, tone=tone)


def values_of(history: History, name: str, label: str, write: Writer) -> Values:
    """A metric as the value of a band in the legend."""
    column = history.series(name)
    return Values(column.steps, column.values, label, write)


class RewardPanel(ChartPanel):
    """Mean reward with a band of one in-group standard deviation: the signal GRPO learns from."""

    NAME = "reward"
    NEEDS = ("reward/",)

    def plot(self, history: History, number: int) -> Plot:
        self.note("mean ± in-group std" if history.has_reward_std else "mean")
        return reward_plot(history)


def reward_plot(history: History) -> Plot:
    bands = (_spread(history), _extremes(history))
    mean = line_of(history, metrics.REWARD_MEAN, "mean", format_fixed, bands=bands)
    held_out = history.series(metrics.VALIDATION_REWARD)
    flat, failed = metrics.ZERO_STD_SHARE, metrics.FAILED_SHARE
    return Plot(
        (mean,),
        (Marks(held_out.steps, held_out.values, "val", format_fixed),),
        history.flags(),
        (
            fact_of(history, metrics.REWARD_MIN, "min", format_fixed),
            fact_of(history, metrics.REWARD_MAX, "max", format_fixed),
            fact_of(history, flat, "zero-std groups", format_percent, "warning"),
            fact_of(history, failed, "failed", format_percent, "error"),
        ),
        clock=history.columns.times,
    )


def _spread(history: History) -> Band:
    """One in-group standard deviation on either side of the mean."""
    mean, std = history.series(metrics.REWARD_MEAN), history.series(metrics.REWARD_STD)
    half = std.at(mean.steps, missing=math.nan)
    fact = values_of(history, metrics.REWARD_STD, "std", format_fixed)
    return Band("spread", mean.values - half, mean.values + half, (fact,))


def _extremes(history: History) -> Band:
    """From the lowest to the highest reward."""
    mean = history.series(metrics.REWARD_MEAN)
    low, high = history.series(metrics.REWARD_MIN), history.series(metrics.REWARD_MAX)
    return Band(
        "extremes",
        low.at(mean.steps, missing=math.nan),
        high.at(mean.steps, missing=math.nan),
    )


_count = partial(format_fixed, decimals=0)


class JudgePanel(ChartPanel):
    """Seconds per judge call, and the wait for a free slot before it.

    The legend shows the cost of a step if ``price`` is set.
    """

    NAME = "judge"
    DETAIL = "time per call"
    NEEDS = ("judge", "semaphore_wait_s")

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
            line_of(history, *middle, format_seconds),
            line_of(history, metrics.JUDGE_LATENCY_P95, "p95", format_seconds, ink="series-2"),
            line_of(history, metrics.SEMAPHORE_WAIT, "queue wait", format_seconds, ink="series-3"),
        ),
        facts=(
            fact_of(history, metrics.JUDGE_CALLS, "calls", _count),
            *(fact_of(history, name, label, _count, tone) for name, label, tone in faults),
            *_cost(history, price),
        ),
        clock=history.columns.times,
        are_seconds=True,
    )


def _cost(history: History, price: JudgePrice | None) -> tuple[Fact, ...]:
    """The cost of the calls of each step; empty if tokens or prices are unknown."""
    sent, received = (
        history.series(name) for name in (metrics.JUDGE_TOKENS_IN, metrics.JUDGE_TOKENS_OUT)
    )
    if price is None or not len(sent):
        return ()
    answers = received.at(sent.steps, missing=np.nan)
    cost = (sent.values * price.input + answers * price.output) / 1e6
    return (Fact(sent.steps, cost, "cost", format_dollars),)


@dataclass(frozen=True)
class Quantity:
    """One small chart of the first of ``names`` that the run logs."""

    label: str
    names: Sequence[str]
    write: Writer = format_number
    ink: str = "series-1"


KL_TERMS, PPO_KL = ("actor/kl_loss", "actor/reward_kl_penalty"), "actor/ppo_kl"

QUANTITIES = (
    Quantity("loss", ("actor/pg_loss", "actor/loss")),
    Quantity("KL", (*KL_TERMS, PPO_KL), ink="series-2"),
    Quantity("entropy", ("actor/entropy", "actor/entropy_loss"), format_fixed, "series-3"),
    Quantity("grad norm", ("actor/grad_norm",), format_fixed, "series-4"),
    Quantity("clipped", ("actor/pg_clipfrac",), format_percent, "series-5"),
    Quantity("length", ("response_length/mean",), lambda value: format_fixed(value, 0), "series-6"),
)
AT_CAP = "response_length/clip_ratio"


class PolicyPanel(ChartPanel):
    """Six small charts, because the scales of these metrics differ."""

    NAME = "policy"
    DETAIL = "loss, KL, entropy, gradient, clipping, length"
    CHARTS = len(QUANTITIES)
    NEEDS = ("actor/", "response_length/")

    def plot(self, history: History, number: int) -> Plot:
        return quantity_plot(history, QUANTITIES[number])

    def hint(self, history: History, number: int) -> str:
        if QUANTITIES[number].label == "KL" and _has_no_kl(history):
            return "off: no KL term logged"
        return super().hint(history, number)


def quantity_plot(history: History, quantity: Quantity) -> Plot:
    logged = (name for name in quantity.names if len(history.series(name)))
    name = next(logged, quantity.names[0])
    if name == PPO_KL and _has_no_kl(history):
        name = quantity.names[0]  # Without values, a dash: a zero would be a measurement.
    line = line_of(history, name, quantity.label, quantity.write, ink=quantity.ink)
    facts: tuple[Fact, ...] = ()
    if quantity.label == "length":
        facts = (fact_of(history, AT_CAP, "at cap", format_percent, "warning"),)
    return Plot((line,), facts=facts, clock=history.columns.times)


def _has_no_kl(history: History) -> bool:
    """Whether neither loss nor reward has a KL term, and PPO's KL estimate is always 0, as it is if
    each batch is trained on once."""
    estimate = history.series(PPO_KL)
    is_silent = len(estimate) > 0 and not np.nan_to_num(estimate.values).any()
    return is_silent and not any(len(history.series(name)) for name in KL_TERMS)


INKS = tuple(f"series-{number}" for number in range(1, 9))

_PREFIXES = ("val-core/", "val/")


class ValidationPanel(ChartPanel):
    """The checkpoints as ``sweep`` measured them, the mean reward, and verl's ``val-core/*``, one
    of them per data source and score."""

    NAME = "validation"
    NEEDS = ("val/", "val-")

    def show(self, history: History) -> None:
        best = history.sweep.best if history.sweep else None
        if best is None:
            self.note("all validation metrics")
        else:
            self.note(f"best checkpoint: step {best.step}, {best.mean:.3f}")
        super().show(history)

    def plot(self, history: History, number: int) -> Plot:
        return validation_plot(history)

    def hint(self, history: History, number: int) -> str:
        state = history.state
        if state is None or state.state == "external" or not history.columns.names:
            return super().hint(history, number)
        status = "no validation logged" if state.has_ended else "no validation yet"
        is_sft = len(history.series(metrics.TRAIN_LOSS)) > 0
        return f"{status}: set {'data.val_file' if is_sft else 'trainer.test_freq'}"


def validation_names(history: History) -> list[str]:
    """The mean reward first, then as many others as there are colors."""
    first = [metrics.VALIDATION_REWARD]
    others = [n for n in history.columns.names if n.startswith(_PREFIXES) and n not in first]
    logged = [name for name in first if len(history.series(name))]
    return (logged + others)[: len(INKS)]


def validation_plot(history: History) -> Plot:
    names, inks = validation_names(history), iter(INKS)
    sweeps = [] if history.sweep is None else [history.sweep]
    swept = (sweep_line(sweep, f"sweep {sweep.metric}", next(inks)) for sweep in sweeps)
    lines = (
        line_of(history, name, name.removeprefix("val-core/"), format_fixed, ink=ink)
        for name, ink in zip(names, inks, strict=False)
    )
    return Plot((*swept, *lines), clock=history.columns.times)


def metrics_plot(history: History, names: tuple[str, ...]) -> Plot:
    """Any metrics as lines in one plot, labeled with their names."""
    lines = (
        line_of(history, name, name, format_number, ink=ink)
        for name, ink in zip(names, INKS, strict=False)
    )
    return Plot(tuple(lines), flags=history.flags(), clock=history.columns.times)


VALIDATION_LOSS = "val/loss"

_loss = partial(format_fixed, decimals=4)


class LossPanel(ChartPanel):
    """The loss of every step, with validation marked where it was measured."""

    NAME = "loss"
    DETAIL = "training and validation"
    NEEDS = ("train/loss", "val/loss")

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


GRAD_NORM = "train/grad_norm"
LEARNING_RATE = "train/lr"
TOKENS = "train/global_tokens"


class OptimizerPanel(ChartPanel):
    """Gradient norm and learning rate, in two charts because their scales differ."""

    NAME = "optimizer"
    DETAIL = "gradient norm and learning rate"
    NEEDS = ("train/grad_norm", "train/lr")
    CHARTS = 2

    def plot(self, history: History, number: int) -> Plot:
        return norm_plot(history) if number == 0 else rate_plot(history)


def norm_plot(history: History) -> Plot:
    return Plot(
        (line_of(history, GRAD_NORM, "grad norm", format_fixed, ink="series-2"),),
        facts=(fact_of(history, TOKENS, "tokens/step", partial(format_fixed, decimals=0)),),
        clock=history.columns.times,
    )


def rate_plot(history: History) -> Plot:
    line = line_of(history, LEARNING_RATE, "lr", _format_rate, ink="series-3")
    return Plot((line,), clock=history.columns.times)


MFU = "train/mfu"


class ThroughputPanel(ChartPanel):
    """Tokens per second of wall-clock time, and the model FLOPs utilization (MFU)."""

    NAME = "throughput"
    DETAIL = "tokens per second"
    NEEDS = ("train/global_tokens", "train/mfu", "perf/throughput")
    CHARTS = 2

    def plot(self, history: History, number: int) -> Plot:
        return speed_plot(history) if number == 0 else mfu_plot(history)


def speed_plot(history: History) -> Plot:
    steps, took = history.step_times()
    logged = history.series(metrics.THROUGHPUT)
    if len(logged) and not len(history.series(TOKENS)):
        # As the trainer measured it: verl per GPU, others of all.
        speed = line_of(history, metrics.THROUGHPUT, "throughput", format_whole)
    else:
        speed = Line(steps, tokens_per_second(history), "tokens/s", format_whole)
    time = Fact(steps, took, "step", format_seconds)
    return Plot((speed,), facts=(time,), clock=history.columns.times)


def mfu_plot(history: History) -> Plot:
    share = history.series(MFU)
    line = Line(share.steps, share.values * 100, "MFU", _format_percent, ink="series-2")
    return Plot((line,), clock=history.columns.times)


def _format_percent(value: float | None) -> str:
    return MISSING if value is None else f"{value:.1f}%"


def _format_rate(value: float | None) -> str:
    return MISSING if value is None else f"{value:.2e}"


def tokens_per_second(history: History) -> Floats:
    """Tokens per second of the steps with a known duration; NaN where no tokens were logged."""
    steps, took = history.step_times()
    tokens = history.series(TOKENS).at(steps, missing=np.nan)
    speed: Floats = np.divide(tokens, took, out=np.full(steps.size, np.nan), where=took > 0)
    return speed


class PinnedPanel(ChartPanel):
    """Metrics that the user pinned: one, or several in one chart."""

    def __init__(self, metrics: tuple[str, ...]) -> None:
        super().__init__()
        self._metrics = metrics
        self.TITLE = metrics[0] if len(metrics) == 1 else f"{metrics[0]} +{len(metrics) - 1}"
        self.DETAIL = "pinned"

    def plot(self, history: History, number: int) -> Plot:
        return metrics_plot(history, self._metrics)
