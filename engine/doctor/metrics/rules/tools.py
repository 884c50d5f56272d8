"""Rules for a model that calls its tools wrongly or not at all, and for tools that fail."""

from __future__ import annotations

from collections.abc import Iterator

from engine.doctor.metrics.logged_run import LoggedRun, find_onset, percent
from engine.run.finding import Finding
from engine.run.finding_kind import Rule
from engine.run.finding_kind_file import FindingKinds

_STEPS = 5
_HALF, _FEW = 0.5, 0.25
_NONE, _SOME = 0.01, 0.05
KINDS = FindingKinds(__file__)


def check(run: LoggedRun) -> Iterator[Finding]:
    yield from _malformed(run)
    yield from _failing(run)
    yield from _no_calls(run)


def _malformed(run: LoggedRun) -> Iterator[Finding]:
    share = run.series("tools/malformed")
    onset = find_onset(share, share.values >= _HALF, share.values < _FEW, need=_STEPS)
    is_learning = share.values.size > 1 and share.values[-1] < share.values[0]
    if onset is None or (is_learning and share.values.min() >= _FEW):
        return
    now = percent(float(share.values[-1]))
    evidence = run.evidence(f"{now} of the calls are malformed", onset, share=share.values[-1])
    yield KINDS["tool_calls.malformed"].finding(run.case(onset), evidence, now=now)


def _failing(run: LoggedRun) -> Iterator[Finding]:
    failed, timed_out = run.series("tools/failed"), run.series("tools/timed_out")
    if len(failed) != len(timed_out):
        return
    sums = failed.values + timed_out.values
    onset = find_onset(failed, sums >= _HALF, sums < _FEW, need=_STEPS)
    if onset is None:
        return
    now = percent(float(sums[-1]))
    evidence = run.evidence(f"{now} of the calls fail or time out", onset, share=float(sums[-1]))
    yield KINDS["tool_calls.failing"].finding(run.case(onset), evidence, now=now)


def _no_calls(run: LoggedRun) -> Iterator[Finding]:
    calls = run.series("tools/calls")
    onset = find_onset(calls, calls.values < _NONE, calls.values > _SOME, need=_STEPS)
    if onset is None:
        return
    evidence = run.evidence(f"{calls.values[-1]:.3g} calls per response", onset)
    yield KINDS["tool_calls.none"].finding(run.case(onset), evidence)


RULE = Rule(check)
