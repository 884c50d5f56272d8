"""What metric rules get of a run: its series by name, its context, and how to cite them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from engine.base.quantities import format_number, format_percent
from engine.doctor.metrics.series_stats import Floats, Mask, is_rounded, tail_start
from engine.logs.formats.names import kind_of
from engine.run import fixes
from engine.run.finding import Evidence
from engine.run.finding_kind import Case
from engine.run.history import metrics
from engine.run.history.columns import Columns
from engine.run.rule_context import RuleContext

LENGTH = "response_length/mean"
FEW = 6
MOSTLY_CUT = 0.9
# Names of the same quantity in other trainers and in older versions of verl and TRL.
_ALSO = {
    LENGTH: ("tokens_out", "response_length"),
    "actor/entropy": ("actor/entropy_loss",),
    "reward/mean": ("objective/scores",),
}


@dataclass(frozen=True, eq=False)
class Series:
    """The values of one metric by ascending step; ``steps`` and ``values`` have equal lengths."""

    name: str
    steps: Floats
    values: Floats

    def __len__(self) -> int:
        return self.values.size

    def finite(self) -> Series:
        """Return the series without values that were NaN, infinite or null."""
        keep = ~np.isnan(self.values)
        return self if keep.all() else Series(self.name, self.steps[keep], self.values[keep])

    def step(self, index: int) -> int:
        return int(self.steps[index])

    def since(self, step: float) -> Series:
        """Return the values from ``step`` on."""
        index = int(np.searchsorted(self.steps, step))
        return Series(self.name, self.steps[index:], self.values[index:])

    def until(self, step: float) -> Series:
        """Return the values before ``step``."""
        index = int(np.searchsorted(self.steps, step))
        return Series(self.name, self.steps[:index], self.values[:index])


@dataclass(frozen=True, eq=False)
class LoggedRun:
    """One run, or the last training of a log that holds several."""

    columns: Columns
    context: RuleContext
    begin: float = float("-inf")
    """The first step of the last training in the log."""

    @cached_property
    def has_rewards(self) -> bool:
        """Whether it learns from rewards, by its config or else by what it logs.

        A run that learns from labels has no rollouts, no groups and no entropy to keep.
        """
        logged = (name for name in self.columns.names if len(self.columns.get(name)))
        return (self.context.kind or kind_of(logged)).has_rollouts

    @cached_property
    def records(self) -> int:
        """The number of steps with any metric."""
        return int(np.sum(self.columns.times.steps >= self.begin))

    @property
    def is_short(self) -> bool:
        """Whether it is a whole log of a few records: the end of a log, or an excerpt of one.

        Such a log has no past to compare with, so all of its records must be bad.
        """
        return self.context.is_whole and 0 < self.records < FEW

    def least(self, count: int, series: Series) -> int:
        """Return how many values at the end must be bad: ``count``, or all of a short log."""
        return max(1, min(count, len(series))) if self.is_short else count

    def raw(self, name: str) -> Series:
        """Return the metric or its equivalent in another trainer's log; NaN where it was null."""
        for alias in (name, *metrics.SIBLINGS.get(name, ()), *_ALSO.get(name, ())):
            series = self._column(alias)
            if len(series):
                return series
        return Series(name, np.empty(0), np.empty(0))

    def named(self, name: str) -> Series:
        """Return the metric of exactly that name, without its NaNs."""
        return self._column(name).finite()

    def _column(self, name: str) -> Series:
        column = self.columns.get(name)
        return Series(name, column.steps, column.values).since(self.begin)

    def series(self, name: str) -> Series:
        """Return ``raw`` without its NaNs."""
        return self.raw(name).finite()

    def first(self, *names: str) -> Series:
        """Return the first of several metrics that has values."""
        candidates = (self.series(name) for name in names)
        empty = Series(names[0], np.empty(0), np.empty(0))
        return next((series for series in candidates if len(series)), empty)

    def case(self, onset: int | None = None) -> Case:
        """Return the case of a finding that began at this step."""
        return Case(self.context, onset)

    def evidence(self, text: str, step: int | None = None, **values: float | int | str) -> Evidence:
        """Return evidence from the metrics file."""
        return Evidence(text, self.context.path, None, step, values)

    def change(self, series: Series, onset: int, word: str) -> Evidence:
        """Return the levels before and since a step as evidence; ``word`` is the verb."""
        before, after = series.until(onset).values, series.since(onset).values
        old = float(np.median(before[-20:])) if before.size else float("nan")
        new = float(np.median(after[-3:])) if after.size else float("nan")
        text = f"{series.name} is {figure(new)} since its first step {onset}"
        earlier = ""
        if before.size:
            text = f"{series.name} {word} from {figure(old)} to {figure(new)} since step {onset}"
            earlier = f"{min(before.size, 20)} steps before, "
        if max(before.size, after.size) > 1:
            text += f" (medians: {earlier}the last {min(after.size, 3)})"
        return self.evidence(text, onset, before=old, after=new)


def find_onset(series: Series, bad: Mask, healthy: Mask, need: int = 2) -> int | None:
    """Return the step at which a lasting fault began: the one after the last healthy value.

    None unless the last ``need`` values are bad.
    """
    index = tail_start(bad, need)
    if index is None:
        return None
    earlier = np.flatnonzero(healthy[:index])
    return series.step(int(earlier[-1]) + 1 if earlier.size else index)


def cut_share(run: LoggedRun) -> Series:
    """Return the share of responses that were truncated at the length limit.

    verl's ratio counts the responses that are as long as the longest of their batch, so it is the
    truncated share only if the longest one reaches the limit. If the limit is unknown, it is taken
    to be the longest response of the run.
    """
    share, longest = run.series("response_length/clip_ratio"), run.series("response_length/max")
    limit = run.context.get(fixes.RESPONSE)
    if not len(share) or not len(longest):
        return share
    cap = float(limit) if isinstance(limit, int | float) else float(longest.values.max())
    lengths = dict(zip(longest.steps.tolist(), longest.values.tolist(), strict=True))
    is_cut = np.array([lengths.get(step, cap) >= cap for step in share.steps.tolist()], dtype=bool)
    return Series(share.name, share.steps, np.where(is_cut, share.values, 0.0))


def cut_evidence(run: LoggedRun) -> list[Evidence]:
    """Return evidence if nine of ten responses hit the length limit in every record."""
    share = cut_share(run)
    if not len(share) or (least := float(share.values.min())) < MOSTLY_CUT:
        return []
    text = f"at least {percent(least)} of responses hit the length limit"
    return [run.evidence(text, share.step(0))]


def learning_rate(run: LoggedRun) -> Series:
    """Return the learning rate that verl or HF's Trainer logged."""
    return run.first("actor/lr", "train/lr")


def prints_small_numbers(run: LoggedRun, *names: str) -> bool:
    """Return whether any value of these metrics (default: all) has more than three decimals.

    If not, or without data, a 0 may be a small value that the log rounded: verl's console prints
    2e-6 as 0.000. Rules on exact zeros check this first.
    """
    samples = [run.series(name).values[:50] for name in names or run.columns.names]
    values = np.concatenate([*samples, np.empty(0)])
    return bool(values.size) and not is_rounded(values)


def format_span(series: Series) -> str:
    """Format the first and the last value, or one of them if they read alike."""
    first, last = figure(float(series.values[0])), figure(float(series.values[-1]))
    return last if first == last else f"{first} at first and {last} at the end"


def figure(value: float) -> str:
    """Format a number with three significant digits."""
    if value != value:
        return "unknown"
    return format_number(value, 3)


def percent(share: float) -> str:
    """Format a share; one below 10% with a decimal."""
    return format_percent(share, 1 if 0 < share < 0.1 else 0)
