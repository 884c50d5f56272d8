"""Rules for rollouts without a reward: the judge, its reply, the data or the reward code failed.

The recorder writes the class of each rollout's last error. The most frequent class is the cause,
from the first step in which it was common.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from engine.doctor.metrics.logged_run import percent
from engine.doctor.rewards.failure_kinds import FAILURES, failure_kind, fixes_of
from engine.doctor.rewards.step_counts import RewardSteps, StepCounts
from engine.run.finding import Evidence, Finding, Severity
from engine.run.finding_kind import Case

_WINDOW = 3
_FEWEST = 4
_HALF = 0.5
_SOME = 0.05
_ENOUGH = 40
_RETRIED = 0.3
_HUNG = "reward_timeout"


def check(records: RewardSteps) -> Iterator[Finding]:
    """Yield one finding for each error class that is common now, the most frequent first."""
    steps = records.steps
    recent = _recent_steps(steps)
    total = sum(counts.records for counts in recent)
    failures = sum((counts.failures for counts in recent), start=Counter[str]())
    for kind, count in failures.most_common():
        share = count / total
        if (share >= _HALF and total >= _FEWEST) or (share >= _SOME and total >= _ENOUGH):
            yield _common_failure(kind, share, records)
        elif kind == _HUNG:
            yield _hung(records)
    if _HUNG not in failures and any(counts.failures[_HUNG] for counts in steps):
        yield _hung(records)
    if not failures:
        yield from _retries(recent, records)


def _recent_steps(steps: Sequence[StepCounts]) -> Sequence[StepCounts]:
    """Return the newest steps; only the last one if most of its rollouts failed."""
    newest = steps[-1:]
    if newest and newest[0].records >= _FEWEST and newest[0].scored < newest[0].records / 2:
        return newest
    return steps[-_WINDOW:]


def _common_failure(kind: str, share: float, records: RewardSteps) -> Finding:
    onset = _find_onset(kind, records.steps, min(_HALF, share / 2))
    evidence, message = _examples(kind, records, onset)
    raised = sum((counts.raised for counts in _recent_steps(records.steps)), start=Counter[str]())
    if kind == "other" and len(raised) > 1:
        parts = (f"{percent(share * n / raised.total())} {e}" for e, n in raised.most_common(4))
        message = f" They are {', '.join(parts)}.{message}"
    severity = Severity.WARNING
    if share >= _HALF:
        severity = Severity.CRITICAL if share > 0.99 else Severity.ERROR
    window = records.steps[-_WINDOW:]
    tries = max(1, sum(counts.tries for counts in window))
    refused = sum(counts.failed_tries[kind] for counts in window) / tries or 0.5
    return failure_kind(kind).finding(
        Case(records.context, onset),
        *evidence,
        severity=severity,
        fixes=fixes_of(kind, Case(records.context, onset), refused),
        detail=f"{percent(share)} of the newest rollouts have no reward for this reason, since "
        f"{f'step {onset}' if onset else 'before step 1'}.{message}",
    )


def _hung(records: RewardSteps) -> Finding:
    """Report a function that hangs in some calls."""
    hung = [counts for counts in records.steps if counts.failures[_HUNG]]
    onset, count = hung[0].step, sum(counts.failures[_HUNG] for counts in hung)
    evidence, message = _examples(_HUNG, records, onset)
    return FAILURES["hung"].finding(
        Case(records.context, onset),
        *evidence,
        calls="1 call was" if count == 1 else f"{count} calls were",
        message=message,
    )


def _examples(kind: str, records: RewardSteps, onset: int) -> tuple[list[Evidence], str]:
    """Return the first rollouts with this error since the onset, and the message of one."""
    for counts in records.steps:
        if counts.step >= onset and (rollouts := counts.failed_examples.get(kind)):
            evidence = [rollout.evidence(records.path) for rollout in rollouts]
            return evidence, f" Message: {rollouts[0].message}"
    return [], ""


def _find_onset(kind: str, steps: Sequence[StepCounts], limit: float) -> int:
    """Return the first step of the last stretch in which the error class was common."""
    onset = steps[-1].step
    for counts in reversed(steps):
        if counts.share(kind) >= limit:
            onset = counts.step
        elif counts.records >= _FEWEST:
            break
    return onset


def _retries(recent: Sequence[StepCounts], records: RewardSteps) -> Iterator[Finding]:
    """Find many failed attempts although every rollout got a reward."""
    tries = sum(counts.tries for counts in recent)
    failed = sum((counts.failed_tries for counts in recent), start=Counter[str]())
    if tries < _ENOUGH or failed.total() < _RETRIED * tries:
        return
    kind, count = failed.most_common(1)[0]
    share = failed.total() / tries
    onset = next(
        counts.step
        for counts in records.steps
        if counts.failed_tries.total() >= share / 2 * counts.tries > 0
    )
    yield FAILURES.get(f"retries_{kind}", FAILURES["retries_other"]).finding(
        Case(records.context, onset),
        fixes=fixes_of(kind, Case(records.context, onset), count / tries),
        share=percent(share),
        count=count,
        tries=tries,
    )
