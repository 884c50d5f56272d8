"""Rules for the inputs of training: empty prompts, truncated prompts, impossible rewards."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from engine.doctor.metrics.run import Run, figure, percent
from engine.findings import remedy_builders as fixes
from engine.findings.finding import Finding, Remedy, Severity
from engine.findings.symptom import Rule, Symptom
from engine.history import metrics

_EMPTY_TOKENS = 8
_LIMIT, _FILTER = "data.max_prompt_length", "data.filter_overlong_prompts"
_MOST = 0.5
_STEPS = 2
_OUTLIER_STEPS = 10
_BELOW, _ABOVE = 4.0, 10.0
"""Distance of an outlier, in usual ranges of the reward; a rare success may be high."""
_LEAST_SPAN = 1e-3

EMPTY_PROMPT = Symptom(
    id="data_missing_or_schema.empty_prompt",
    severity=Severity.CRITICAL,
    title="Prompts are empty ({tokens} tokens each)",
    cause="The longest prompt of each of {count} steps has {tokens} tokens: only the chat "
    "template's own tokens. The question never reaches the model, usually because the prompt "
    "column holds text instead of a list of messages.",
    shape="all prompts of all batches have the same few tokens, at most 8, which is what a chat "
    "template leaves of an empty message",
    ruled_out="short prompts whose lengths vary, within a batch too",
    remedies=lambda _: (
        Remedy("Prepare the data again: prompt must be a list of {role, content}"),
        Remedy("Run grubrics-tui check, which checks that a rendered prompt contains the question"),
    ),
    source="grubrics history: prompt_length/mean=3.0 in every step (a prompt stored as a JSON "
    "string is read letter by letter)",
)
CUT_PROMPT = Symptom(
    id="data_missing_or_schema.cut_prompt",
    also=(Severity.WARNING,),
    title="Prompts are truncated to {limit} tokens",
    cause="In {count} of {steps} steps, first in step {onset}, up to {worst} of the prompts have "
    "exactly {limit} tokens, the maximum. verl cuts the beginning of longer prompts, even if "
    "data.truncation says otherwise: the model is trained to answer without its instructions, or "
    "without the question.",
    shape="the longest prompt of a batch is exactly as long as the limit, to which verl cuts "
    "longer ones on the left. The share is `prompt_length/clip_ratio`, which for any other batch "
    "is only the share of its longest prompts",
    ruled_out="an unknown limit; rows that were filtered by length",
    remedies=lambda case: (
        fixes.setting(case.context, _FILTER, True, "Drop prompts that are too long", "none is cut"),
        Remedy("Allow longer prompts; grubrics-tui check lists the rows and their tokens"),
    ),
    source="verl 0.9.1: AgentLoopBase._cap_text_prompt_length",
)
OUT_OF_RANGE = Symptom(
    id="reward_function_error.out_of_range",
    title="Reward {worst} is outside its possible range",
    cause="In {count} steps, first in step {onset}, a reward lies outside {low} to {high}, the "
    "range that its formula and weights allow (worst {worst}). One such outlier determines the "
    "advantages of its whole group.",
    shape="a reward outside the range that its formula and weights allow, by more than 1% of the "
    "range",
    remedies=lambda _: (Remedy("Find the reward component that is too large in that rollout"),),
    source="engine.reward.reward",
)
OUTLIER = Symptom(
    id="reward_function_error.outlier",
    severity=Severity.WARNING,
    title="Reward outliers ({worst})",
    cause="In {count} steps, first in step {onset}, a reward lies far from all others (9 of 10 are "
    "between {low} and {high}). A component without a limit, such as a latency penalty, determines "
    "the advantages of the whole group.",
    shape="if the possible range is unknown: a reward that is four usual ranges below the usual "
    "rewards, or ten above them",
    ruled_out="rewards that are nearly constant; a rare success",
    remedies=lambda _: (Remedy("Limit each component of the reward, or clip its sum"),),
    confidence=0.7,
    source="hardening guide's logs: rewards of -10 among rewards of 2, from one slow generation",
)


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
    onset, tokens = longest.step(0), figure(float(values[0]))
    evidence = run.evidence(f"{longest.name} is {tokens}", onset)
    yield EMPTY_PROMPT.finding(run.case(onset), evidence, tokens=tokens, count=values.size)


def _cut_prompts(run: Run) -> Iterator[Finding]:
    share, longest = run.series("prompt_length/clip_ratio"), run.series("prompt_length/max")
    if not np.array_equal(share.steps, longest.steps) or run.context.get(_FILTER):
        return
    limit = run.context.get(_LIMIT)
    cut = np.flatnonzero((share.values > 0) & (longest.values == limit))
    if not cut.size:
        return
    onset, worst = share.step(int(cut[0])), float(share.values[cut].max())
    is_most = np.median(share.values[cut]) >= _MOST
    yield CUT_PROMPT.finding(
        run.case(onset),
        run.evidence(f"{share.name} is {figure(worst)}", onset, worst=worst),
        severity=None if is_most else Severity.WARNING,
        limit=figure(float(limit)),
        count=cut.size,
        steps=len(share),
        onset=onset,
        worst=percent(worst),
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
        bad = np.flatnonzero(beyond)
        if not bad.size:
            continue
        onset = series.step(int(bad[0]))
        worst = float(series.values[bad[np.argmax(np.abs(series.values[bad]))]])
        yield OUT_OF_RANGE.finding(
            run.case(onset),
            run.evidence(f"{series.name} beyond {figure(limit)}", onset, worst=worst),
            worst=figure(worst),
            count=bad.size,
            onset=onset,
            low=figure(low),
            high=figure(high),
        )


def _outliers(run: Run) -> Iterator[Finding]:
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
        yield OUTLIER.finding(
            run.case(onset),
            run.evidence(series.name, onset, worst=worst),
            worst=figure(worst),
            count=bad.size,
            onset=onset,
            low=figure(float(low)),
            high=figure(float(high)),
        )
        return


RULE = Rule(check)
