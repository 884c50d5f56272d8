"""Rules for a judge that becomes slower, fails more often, or sends unparsable replies."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from engine.base.quantities import format_seconds
from engine.doctor.metrics.logged_run import LoggedRun, percent
from engine.doctor.metrics.series_stats import early_level, tail_start
from engine.run.finding import Finding, Severity
from engine.run.finding_kind import Rule
from engine.run.finding_kind_file import FindingKinds
from engine.run.history import metrics

_STEPS = 5
_SLOWER = 3.0
_SLOW_S = 2.0
_SHORTEST_S = 0.001
_FAILED = 0.05
_HALF = 0.5
_TIMEOUTS = 0.2
_UNREADABLE = 0.01


KINDS = FindingKinds(__file__)


def check(run: LoggedRun) -> Iterator[Finding]:
    yield from _latency(run)
    yield from _failed(run)
    yield from _timeouts(run)
    yield from _unparsed(run)


def _latency(run: LoggedRun) -> Iterator[Finding]:
    latency = run.series(metrics.JUDGE_LATENCY)
    if len(latency) < 2 * _STEPS:
        return
    first = early_level(latency.values)
    index = tail_start(latency.values > max(_SLOWER * first, _SLOW_S), _STEPS)
    if not index:
        return
    onset, now = latency.step(index), float(np.median(latency.values[-_STEPS:]))
    yield KINDS["judge_timeout_or_connection.slower"].finding(
        run.case(onset),
        run.change(latency, onset, "rose"),
        factor=f"{now / max(first, _SHORTEST_S):.1f}",
        first=format_seconds(first),
        now=format_seconds(now),
        limit=_time_limit(run),
    )


def _failed(run: LoggedRun) -> Iterator[Finding]:
    """Find rollouts without a reward; the reward records show why."""
    share = run.series(metrics.FAILED_SHARE)
    index = tail_start(share.values > _FAILED, 1)
    if index is None:
        return
    window = share.values[-_STEPS:]
    mean, last = float(window.mean()), float(share.values[-1])
    if mean < _FAILED or (last < _HALF and len(share) - index < _STEPS):
        return
    onset = share.step(index)
    yield KINDS["judge_timeout_or_connection.samples_failed"].finding(
        run.case(onset),
        run.evidence("share of rollouts without a reward", onset, share=last),
        severity=None if mean >= _HALF or last >= _HALF else Severity.WARNING,
        last=percent(last),
        mean=percent(mean),
        steps=window.size,
    )


def _timeouts(run: LoggedRun) -> Iterator[Finding]:
    failing = _lasting_share(run, metrics.JUDGE_TIMEOUTS, _TIMEOUTS)
    if failing is None:
        return
    onset, share = failing
    evidence = run.evidence("calls that timed out", onset, share=share)
    limit = _time_limit(run)
    yield KINDS["judge_timeout_or_connection.timeouts"].finding(
        run.case(onset), evidence, share=percent(share), limit=limit
    )


def _unparsed(run: LoggedRun) -> Iterator[Finding]:
    failing = _lasting_share(run, metrics.JUDGE_PARSE_FAILURES, _UNREADABLE)
    if failing is None:
        return
    onset, share = failing
    yield KINDS["judge_parse_failure.share"].finding(
        run.case(onset),
        run.evidence("replies that could not be parsed", onset, share=share),
        severity=None if share > 0.2 else Severity.WARNING,
        share=percent(share),
    )


def _lasting_share(run: LoggedRun, name: str, limit: float) -> tuple[int, float] | None:
    """Return onset and share if more than ``limit`` of the calls of the last steps fail this way.

    There must be at least three failures, in more than one step.
    """
    failures, calls = run.series(name), run.columns.get(metrics.JUDGE_CALLS)
    if len(failures) < _STEPS or not len(calls):
        return None
    made = np.nan_to_num(calls.at(failures.steps))
    failed, total = failures.values[-_STEPS:].sum(), made[-_STEPS:].sum()
    if total <= 0 or failed < 3 or (failures.values[-_STEPS:] > 0).sum() < 2:
        return None
    if failed / total <= limit:
        return None
    bad = failures.values > limit * np.maximum(made, 1)
    quiet = np.flatnonzero(~bad[: -_STEPS + 1])
    start = int(quiet[-1]) + 1 if quiet.size else 0
    return failures.step(start + int(np.argmax(bad[start:]))), float(failed / total)


def _time_limit(run: LoggedRun) -> str:
    limit = run.context.get("judge.timeout_s")
    return "not known" if limit is None else f"{limit:g} s"


RULE = Rule(check)
