"""Rules for a model that calls its tools wrongly or not at all, and for tools that fail."""

from __future__ import annotations

from collections.abc import Iterator

from engine.doctor.metrics.run import Run, find_onset, percent
from engine.findings import remedy_builders as fixes
from engine.findings.finding import Finding, Remedy, Severity
from engine.findings.symptom import Rule, Symptom

_STEPS = 5
_HALF, _FEW = 0.5, 0.25
_NONE, _SOME = 0.01, 0.05
_LOOK = Remedy("Read some: grubrics-tui rollouts RUN --group 1")

UNREADABLE = Symptom(
    id="tool_calls.malformed",
    severity=Severity.WARNING,
    title="{now} of tool calls cannot be read",
    cause="Since step {onset}, at least half of the calls have no valid JSON or no end tag. verl "
    "drops them, and the conversation ends without a reply.",
    shape="at least half of the calls are malformed in each of the last 5 steps",
    ruled_out="a share that has never been below a quarter and falls",
    remedies=lambda case: (
        Remedy("Compare multi_turn.format with the calls that the model writes"),
        Remedy("Train the form of a call by SFT first"),
        fixes.lower_rate(case.context),
        _LOOK,
    ),
    source="own runs: a policy that collapses loses the form of its calls first",
)
FAILING = Symptom(
    id="tool_calls.failing",
    severity=Severity.WARNING,
    title="{now} of tool calls fail or time out",
    cause="Since step {onset}, at least half of the calls end in an error of the tool or in its "
    "time limit. The model learns from error messages.",
    shape="at least half of the calls fail or time out in each of the last 5 steps",
    remedies=lambda _: (
        Remedy("Call the tool by hand with the arguments that rollouts print"),
        Remedy("Raise grubrics.tool_timeout_s if the tool is slow"),
        _LOOK,
    ),
    source="own runs",
)
NO_CALLS = Symptom(
    id="tool_calls.none",
    severity=Severity.WARNING,
    title="The model calls no tool",
    cause="Since step {onset}, fewer than 1 in 100 responses have a call. GRPO reinforces what the "
    "model already does, so that calls seldom begin by themselves.",
    shape="fewer than 0.01 calls per response in each of the last 5 steps",
    remedies=lambda _: (
        Remedy("Look at the prompt that the model gets: grubrics-tui tokens RUN"),
        Remedy("Train some conversations with calls by SFT first"),
    ),
    source="own runs: an untrained model never calls",
)


def check(run: Run) -> Iterator[Finding]:
    yield from _malformed(run)
    yield from _failing(run)
    yield from _no_calls(run)


def _malformed(run: Run) -> Iterator[Finding]:
    share = run.series("tools/malformed")
    onset = find_onset(share, share.values >= _HALF, share.values < _FEW, need=_STEPS)
    is_learning = share.values.size > 1 and share.values[-1] < share.values[0]
    if onset is None or (is_learning and share.values.min() >= _FEW):
        return
    now = percent(float(share.values[-1]))
    evidence = run.evidence(f"{now} of the calls are malformed", onset, share=share.values[-1])
    yield UNREADABLE.finding(run.case(onset), evidence, onset=onset, now=now)


def _failing(run: Run) -> Iterator[Finding]:
    failed, timed_out = run.series("tools/failed"), run.series("tools/timed_out")
    if len(failed) != len(timed_out):
        return
    sums = failed.values + timed_out.values
    onset = find_onset(failed, sums >= _HALF, sums < _FEW, need=_STEPS)
    if onset is None:
        return
    now = percent(float(sums[-1]))
    evidence = run.evidence(f"{now} of the calls fail or time out", onset, share=float(sums[-1]))
    yield FAILING.finding(run.case(onset), evidence, onset=onset, now=now)


def _no_calls(run: Run) -> Iterator[Finding]:
    calls = run.series("tools/calls")
    onset = find_onset(calls, calls.values < _NONE, calls.values > _SOME, need=_STEPS)
    if onset is None:
        return
    evidence = run.evidence(f"{calls.values[-1]:.3g} calls per response", onset)
    yield NO_CALLS.finding(run.case(onset), evidence, onset=onset)


RULE = Rule(check)
