"""A run as the rules see it: series without gaps by name, and what else is known."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from engine.doctor.metrics.series_stats import Floats
from engine.findings.finding import Evidence, Finding
from engine.findings.run_context import MetricContext
from engine.history.columns import Columns
from engine.history.metrics import SIBLINGS

# What other writers, and older versions of verl and TRL, call the same quantity.
_ALSO = {
    "response_length/mean": ("tokens_out", "response_length"),
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
    """What a rule is given."""

    columns: Columns
    context: MetricContext
    begin: float = float("-inf")
    """The first step that is looked at: with it the last of a log's trainings begins."""

    @property
    def records(self) -> int:
        """How many steps have any metric."""
        return int(np.sum(self.columns.times.steps >= self.begin))

    def raw(self, name: str) -> Series:
        """The metric, or what trainers of another kind log in its stead; NaN where it was null."""
        for one in (name, *SIBLINGS.get(name, ()), *_ALSO.get(name, ())):
            found = self._column(one)
            if len(found):
                return found
        return Series(name, np.empty(0), np.empty(0))

    def named(self, name: str) -> Series:
        """The metric of that very name, without its NaNs."""
        return self._column(name).known()

    def _column(self, name: str) -> Series:
        column = self.columns.get(name)
        return Series(name, column.steps, column.values).since(self.begin)

    def series(self, name: str) -> Series:
        """``raw`` without its NaNs."""
        return self.raw(name).known()

    def first(self, *names: str) -> Series:
        """The first of several metrics that has values."""
        found = (self.series(name) for name in names)
        return next((one for one in found if len(one)), Series(names[0], np.empty(0), np.empty(0)))

    def seen(self, text: str, step: int | None = None, **values: float | int | str) -> Evidence:
        return Evidence(text, self.context.path, None, step, values)

    def change(self, series: Series, onset: int, word: str) -> Evidence:
        """What a series was before a step, and what it has been since."""
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
        return self.seen(text, onset, before=was, after=now)


Rule = Callable[[Run], Iterator[Finding]]


def figure(value: float) -> str:
    """A number as a person writes it: three figures."""
    if value != value:
        return "unknown"
    # Three figures of 999.5 and more read 1e+03.
    return f"{value:.3g}" if abs(value) < 999.5 else f"{value:,.0f}"


def percent(share: float) -> str:
    return f"{100 * share:.0f} %" if share >= 0.1 or share == 0 else f"{100 * share:.1f} %"
