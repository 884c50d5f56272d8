"""What went in: empty prompts, prompts that were cut, and rewards that cannot be.

Empty prompts: every prompt of every batch has the same few tokens, at most 8, which is what a
chat template leaves of nothing. Cut prompts: the longest prompt of a batch is exactly as long as
the limit, to which verl cuts longer ones on the left. Their share is ``prompt_length/clip_ratio``,
which of any other batch is only the share of its longest prompts: it is counted from the padding.
Impossible rewards: outside the range that the reward's own arithmetic allows, by more than a
hundredth of it; where that is not known, four times the usual span of the rewards below it or ten
times above it.
Ruled out: short prompts whose lengths vary, within a batch too; a limit that is unknown, or to
which rows were filtered; rewards without any usual span, and a success that is rare.
Source: grubrics history (a prompt stored as a JSON string is read letter by letter: 3 tokens in
every step); the reward's formula in ``engine.reward.formula``.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from engine.doctor.metrics.run import Run, figure, percent
from engine.findings import remedy_builders as cures
from engine.findings.finding import Finding, Remedy, Severity
from engine.history import metrics

_EMPTY_TOKENS = 8
_LIMIT, _FILTER = "data.max_prompt_length", "data.filter_overlong_prompts"
_MOST = 0.5
_STEPS = 2
_OUTLIER_STEPS = 10
_BELOW, _ABOVE = 4.0, 10.0
"""How many usual spans away a reward is an outlier: one that is rarely earned is often high."""
_LEAST_SPAN = 1e-3


def check(run: Run) -> Iterator[Finding]:
    yield from _empty_prompts(run)
    yield from _cut_prompts(run)
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


def _cut_prompts(run: Run) -> Iterator[Finding]:
    share, longest = run.series("prompt_length/clip_ratio"), run.series("prompt_length/max")
    if not np.array_equal(share.steps, longest.steps) or run.context.get(_FILTER):
        return
    limit = run.context.get(_LIMIT)
    cut = np.flatnonzero((share.values > 0) & (longest.values == limit))
    if not cut.size:
        return
    first, worst = share.step(int(cut[0])), float(share.values[cut].max())
    yield Finding(
        "data_missing_or_schema.cut_prompt",
        Severity.ERROR if np.median(share.values[cut]) >= _MOST else Severity.WARNING,
        f"Prompts are cut to {figure(float(limit))} tokens",
        f"In {cut.size} of {len(share)} steps, first in step {first}, up to {percent(worst)} of "
        f"the prompts have exactly {figure(float(limit))} tokens, the most that is allowed. verl "
        "cuts longer ones at their beginning, whatever data.truncation says: the model is trained "
        "to answer without its instructions, or without the question.",
        (run.seen(f"{share.name} is {figure(worst)}", first, worst=worst),),
        (
            cures.setting(
                run.context, _FILTER, True, "Drop prompts that are too long", "none is cut"
            ),
            Remedy("Allow longer prompts; grubrics-tui check names the rows and their tokens"),
        ),
        first,
        source="verl 0.9.1: AgentLoopBase._cap_text_prompt_length",
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
            source="engine.reward.formula",
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
