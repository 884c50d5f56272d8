"""Rules for the inputs of training: empty prompts, truncated prompts, impossible rewards."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from engine.base.jsonl import number
from engine.doctor.metrics.logged_run import LoggedRun, figure, percent
from engine.run.finding import Finding, Severity
from engine.run.finding_kind import Rule
from engine.run.finding_kind_file import FindingKinds
from engine.run.history import metrics

_EMPTY_TOKENS = 8
_LIMIT, _FILTER = "data.max_prompt_length", "data.filter_overlong_prompts"
_MOST = 0.5
_STEPS = 2
_OUTLIER_STEPS = 10
_BELOW, _ABOVE = 4.0, 10.0
"""Distance of an outlier, in usual ranges of the reward; a rare success may be high."""
_LEAST_SPAN = 1e-3

KINDS = FindingKinds(__file__)


def check(run: LoggedRun) -> Iterator[Finding]:
    yield from _empty_prompts(run)
    yield from _cut_prompts(run)
    yield from _impossible(run) if run.context.reward_range else _outliers(run)


def _empty_prompts(run: LoggedRun) -> Iterator[Finding]:
    longest, mean = run.series("prompt_length/max"), run.series("prompt_length/mean")
    values = np.concatenate([longest.values, mean.values])
    longest = longest if len(longest) else mean
    if len(longest) < _STEPS or values.max() > _EMPTY_TOKENS or np.ptp(values) > 0:
        return
    onset, tokens = longest.step(0), figure(float(values[0]))
    evidence = run.evidence(f"{longest.name} is {tokens}", onset)
    yield KINDS["data_missing_or_schema.empty_prompt"].finding(
        run.case(onset), evidence, tokens=tokens, count=values.size
    )


def _cut_prompts(run: LoggedRun) -> Iterator[Finding]:
    share, longest = run.series("prompt_length/clip_ratio"), run.series("prompt_length/max")
    if not np.array_equal(share.steps, longest.steps) or run.context.get(_FILTER):
        return
    if (limit := number(run.context.get(_LIMIT))) is None:
        return
    cut = np.flatnonzero((share.values > 0) & (longest.values == limit))
    if not cut.size:
        return
    onset, worst = share.step(int(cut[0])), float(share.values[cut].max())
    is_most = np.median(share.values[cut]) >= _MOST
    yield KINDS["data_missing_or_schema.cut_prompt"].finding(
        run.case(onset),
        run.evidence(f"{share.name} is {figure(worst)}", onset, worst=worst),
        severity=None if is_most else Severity.WARNING,
        limit=figure(limit),
        count=cut.size,
        steps=len(share),
        worst=percent(worst),
    )


def _impossible(run: LoggedRun) -> Iterator[Finding]:
    if run.context.reward_range is None:
        return
    low, high = run.context.reward_range
    slack = 0.01 * (high - low)
    top, bottom = run.series(metrics.REWARD_MAX), run.series(metrics.REWARD_MIN)
    for series, beyond, limit in (
        (top, top.values > high + slack, high),
        (bottom, bottom.values < low - slack, low),
    ):
        bad = np.flatnonzero(beyond)
        if not bad.size:
            continue
        onset = series.step(int(bad[0]))
        worst = float(series.values[bad[np.argmax(np.abs(series.values[bad]))]])
        yield KINDS["reward_function_error.out_of_range"].finding(
            run.case(onset),
            run.evidence(f"{series.name} beyond {figure(limit)}", onset, worst=worst),
            worst=figure(worst),
            count=bad.size,
            low=figure(low),
            high=figure(high),
        )


def _outliers(run: LoggedRun) -> Iterator[Finding]:
    """Find single rewards far from all others, if the possible rewards are unknown."""
    top, bottom = run.series(metrics.REWARD_MAX), run.series(metrics.REWARD_MIN)
    if min(len(top), len(bottom)) < _OUTLIER_STEPS or top.name == bottom.name:
        return
    low, high = np.percentile(np.concatenate([top.values, bottom.values]), [5, 95])
    span = float(high - low)
    if span < _LEAST_SPAN:
        return
    for series, far in (
        (bottom, bottom.values < low - _BELOW * span),
        (top, top.values > high + _ABOVE * span),
    ):
        bad = np.flatnonzero(far)
        if not bad.size:
            continue
        onset, worst = series.step(int(bad[0])), float(series.values[bad][0])
        yield KINDS["reward_function_error.outlier"].finding(
            run.case(onset),
            run.evidence(series.name, onset, worst=worst),
            worst=figure(worst),
            count=bad.size,
            low=figure(float(low)),
            high=figure(float(high)),
        )
        return


RULE = Rule(check)
