"""What went in: empty prompts, and rewards that cannot be.

Empty prompts: every prompt of every batch has the same few tokens, at most 8, which is what a
chat template leaves of nothing. Impossible rewards: outside the range that the reward's own
arithmetic allows, by more than a hundredth of it; where that is not known, four times the usual
span of the rewards below it or ten times above it.
Ruled out: short prompts whose lengths vary, within a batch too; rewards without any usual span, and
a success that is rare.
Source: grubrics history (a prompt stored as a JSON string is read letter by letter: 3 tokens in
every step); the reward's formula in ``engine.rubrics.reward``.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from engine.doctor.finding import Finding, Remedy, Severity
from engine.doctor.metrics.run import Run, figure
from engine.watch import metrics

_EMPTY_TOKENS = 8
_STEPS = 2
_OUTLIER_STEPS = 10
_BELOW, _ABOVE = 4.0, 10.0
"""How many usual spans away a reward is an outlier: one that is rarely earned is often high."""
_LEAST_SPAN = 1e-3


def check(run: Run) -> Iterator[Finding]:
    yield from _empty_prompts(run)
    yield from _impossible(run) if run.context.reward_range else _outliers(run)


def _empty_prompts(run: Run) -> Iterator[Finding]:
    longest, mean = run.series("prompt_length/max"), run.series("prompt_length/mean")
    values = np.concatenate([longest.values, mean.values])
    longest = longest if len(longest) else mean
    if len(longest) < _STEPS or values.max() > _EMPTY_TOKENS or np.ptp(values) > 0:
        return
    yield Finding(
        "data_missing_or_schema.empty_prompt",
        Severity.CRITICAL,
        f"Every prompt has {figure(float(values[0]))} tokens: it is empty",
        f"The longest prompt of each of {values.size} steps has {figure(float(values[0]))} "
        "tokens: only the chat template's own marks. The question never reaches the model, "
        "usually because the prompt column holds text in place of a list of messages.",
        (run.seen(f"{longest.name} is {figure(float(values[0]))}", longest.step(0)),),
        (
            Remedy("Prepare the data again: prompt must be a list of {role, content}"),
            Remedy("Render one prompt and look for the question in it: grubrics-tui check does"),
        ),
        longest.step(0),
        source="grubrics history: prompt_length/mean=3.0 in every step",
    )


def _impossible(run: Run) -> Iterator[Finding]:
    if run.context.reward_range is None:
        return
    low, high = run.context.reward_range
    slack = 0.01 * (high - low)
    top, bottom = run.series(metrics.REWARD_MAX), run.series(metrics.REWARD_MIN)
    for series, beyond, limit in (
        (top, top.values > high + slack, high),
        (bottom, bottom.values < low - slack, low),
    ):
        places = np.flatnonzero(beyond)
        if not places.size:
            continue
        first = int(places[0])
        worst = float(series.values[places[np.argmax(np.abs(series.values[places]))]])
        yield Finding(
            "reward_function_error.out_of_range",
            Severity.ERROR,
            f"A reward of {figure(worst)} cannot be",
            f"In {places.size} steps, first in step {series.step(first)}, a reward lies outside "
            f"{figure(low)} to {figure(high)}, the range that its formula and weights allow "
            f"(worst {figure(worst)}). One such outlier sets the whole group's advantages.",
            (run.seen(f"{series.name} beyond {figure(limit)}", series.step(first), worst=worst),),
            (Remedy("Look at that rollout's reward parts: which term is too large?"),),
            series.step(first),
            source="engine.rubrics.reward",
        )


def _outliers(run: Run) -> Iterator[Finding]:
    """Single rewards far from all others, in a run whose reward nobody here knows."""
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
        places = np.flatnonzero(far)
        if not places.size:
            continue
        first, worst = int(places[0]), float(series.values[places][0])
        yield Finding(
            "reward_function_error.outlier",
            Severity.WARNING,
            f"Single rewards of {figure(worst)} are far from all others",
            f"In {places.size} steps, first in step {series.step(first)}, a reward lies far from "
            f"all others (9 of 10 are between {figure(float(low))} and {figure(float(high))}). A "
            "term without a limit, such as a latency penalty, sets the whole group's advantages.",
            (run.seen(series.name, series.step(first), worst=worst),),
            (Remedy("Limit each term of the reward, or clip its sum"),),
            series.step(first),
            confidence=0.7,
            source="hardening guide's logs: rewards of -10 among 2, from one slow generation",
        )
        return
