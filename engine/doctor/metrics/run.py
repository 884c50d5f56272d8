"""The view of a run that metric rules get: its series by name, and what else is known of it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from engine.doctor.metrics.series_stats import Floats, Mask, is_rounded, tail_start
from engine.findings import remedy_builders as fixes
from engine.findings.finding import Evidence
from engine.findings.run_context import MetricContext
from engine.findings.symptom import Case
from engine.history import metrics
from engine.history.columns import Columns

LENGTH = "response_length/mean"
# Names of the same quantity in other trainers and in older versions of verl and TRL.
_ALSO = {
    LENGTH: ("tokens_out", "response_length"),
    "actor/entropy": ("actor/entropy_loss",),
    "reward/mean": ("objective/scores",),
}


@dataclass(frozen=True, eq=False)
class Series:
    """One metric's values by ascending step; ``steps`` and ``values`` are of one length."""

    name: str
    steps: Floats
    values: Floats

    def __len__(self) -> int:
        return self.values.size

    def known(self) -> Series:
        """Without the steps whose value was NaN, infinite or null."""
        keep = ~np.isnan(self.values)
        return self if keep.all() else Series(self.name, self.steps[keep], self.values[keep])

    def step(self, place: int) -> int:
        return int(self.steps[place])

    def since(self, step: float) -> Series:
        """From ``step`` on."""
        place = int(np.searchsorted(self.steps, step))
        return Series(self.name, self.steps[place:], self.values[place:])

    def until(self, step: float) -> Series:
        """Before ``step``."""
        place = int(np.searchsorted(self.steps, step))
        return Series(self.name, self.steps[:place], self.values[:place])


@dataclass(frozen=True, eq=False)
class Run:
    """One run, or the last training of a log that holds several."""

    columns: Columns
    context: MetricContext
    begin: float = float("-inf")
    """The first step of the last training in the log."""

    @property
    def records(self) -> int:
        """How many steps have any metric."""
        return int(np.sum(self.columns.times.steps >= self.begin))

    def raw(self, name: str) -> Series:
        """The metric, or its equivalent in another trainer's log; NaN where it was null."""
        for alias in (name, *metrics.SIBLINGS.get(name, ()), *_ALSO.get(name, ())):
            series = self._column(alias)
            if len(series):
                return series
        return Series(name, np.empty(0), np.empty(0))

    def named(self, name: str) -> Series:
        """The metric of exactly that name, without its NaNs."""
        return self._column(name).known()

    def _column(self, name: str) -> Series:
        column = self.columns.get(name)
        return Series(name, column.steps, column.values).since(self.begin)

    def series(self, name: str) -> Series:
        """``raw`` without its NaNs."""
        return self.raw(name).known()

    def first(self, *names: str) -> Series:
        """The first of several metrics that has values."""
        every = (self.series(name) for name in names)
        empty = Series(names[0], np.empty(0), np.empty(0))
        return next((series for series in every if len(series)), empty)

    def case(self, onset: int | None = None) -> Case:
        """The case of a finding that began at this step."""
        return Case(self.context, onset)

    def evidence(self, text: str, step: int | None = None, **values: float | int | str) -> Evidence:
        """A piece of evidence from the metrics."""
        return Evidence(text, self.context.path, None, step, values)

    def change(self, series: Series, onset: int, word: str) -> Evidence:
        """The level of a series before and since a step."""
        before, after = series.until(onset).values, series.since(onset).values
        was = float(np.median(before[-20:])) if before.size else float("nan")
        now = float(np.median(after[-3:])) if after.size else float("nan")
        start = f"{series.name} {word} " if word else f"{series.name} "
        text = f"{start}from {figure(was)} to {figure(now)} since step {onset}"
        earlier = f"{min(before.size, 20)} steps before, " if before.size else ""
        if not before.size:
            text = f"{series.name} is {figure(now)} since its first step {onset}"
        if max(before.size, after.size) > 1:
            text += f" (medians: {earlier}the last {min(after.size, 3)})"
        return self.evidence(text, onset, before=was, after=now)


def find_onset(series: Series, sick: Mask, sound: Mask, need: int = 2) -> int | None:
    """The step at which a lasting fault began: the first after the last sound value.

    None unless the last ``need`` values are ``sick``.
    """
    place = tail_start(sick, need)
    if place is None:
        return None
    healthy = np.flatnonzero(sound[:place])
    return series.step(int(healthy[-1]) + 1 if healthy.size else place)


def cut_share(run: Run) -> Series:
    """The share of responses that were cut at the length limit.

    verl's ratio counts the responses that are as long as the longest of their batch: it is the
    share that was cut only where the longest is as long as the limit. Where the limit is unknown,
    the longest response of all is taken for it.
    """
    share, longest = run.series("response_length/clip_ratio"), run.series("response_length/max")
    limit = run.context.get(fixes.RESPONSE)
    if not len(share) or not len(longest):
        return share
    cap = float(limit) if isinstance(limit, int | float) else float(longest.values.max())
    known = dict(zip(longest.steps.tolist(), longest.values.tolist(), strict=True))
    is_cut = np.array([known.get(step, cap) >= cap for step in share.steps.tolist()], dtype=bool)
    return Series(share.name, share.steps, np.where(is_cut, share.values, 0.0))


def learning_rate(run: Run) -> Series:
    """The learning rate of every step, whoever logged it."""
    return run.first("actor/lr", "train/lr")


def prints_small_numbers(run: Run, *names: str) -> bool:
    """Whether any value of these metrics (default: of all) has more than three decimals.

    False without data too: then a value of 0 may be a small one that the log rounded, as 2e-6
    reads 0.000 in verl's console. Rules on exact zeros ask this first.
    """
    every = [run.series(name).values[:50] for name in names or run.columns.names]
    values = np.concatenate([*every, np.empty(0)])
    return bool(values.size) and not is_rounded(values)


def figure(value: float) -> str:
    """A number with three significant digits."""
    if value != value:
        return "unknown"
    # Three digits of 999.5 and more would read 1e+03.
    return f"{value:.3g}" if abs(value) < 999.5 else f"{value:,.0f}"


def percent(share: float) -> str:
    return f"{100 * share:.0f}%" if share >= 0.1 or share == 0 else f"{100 * share:.1f}%"
