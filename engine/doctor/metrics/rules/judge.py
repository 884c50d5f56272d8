"""The judge gets slower, fails more often, or answers what cannot be read.

Shape: its latency is three times its early median in each of the last 5 steps, and 2 s at least;
over the last 5 steps more than 5 % of the samples have no reward, 20 % of the calls time out, or
1 % of the replies cannot be parsed. Ruled out: a retry now and then, latencies too small to matter.
Source: grubrics history (429 cascades; timeouts of 60 s where 300 were needed; 7 % parse failures
with answers cut at 2000 tokens).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from engine.base.times import seconds
from engine.doctor.metrics.run import Run, Series, percent
from engine.doctor.metrics.series_stats import early, lasting
from engine.findings import remedy_builders as cures
from engine.findings.finding import Finding, Remedy, Severity
from engine.history import metrics

_STEPS = 5
_SLOWER = 3.0
_SLOW_S = 2.0
_FAILED = 0.05
_HALF = 0.5
_TIMEOUTS = 0.2
_UNREADABLE = 0.01


def check(run: Run) -> Iterator[Finding]:
    yield from _latency(run)
    yield from _failed(run)
    yield from _timeouts(run)
    yield from _unreadable(run)


def _latency(run: Run) -> Iterator[Finding]:
    latency = run.series(metrics.JUDGE_LATENCY)
    if len(latency) < 2 * _STEPS:
        return
    first = early(latency.values)
    place = lasting(latency.values > max(_SLOWER * first, _SLOW_S), _STEPS)
    if place is None or not place:
        return
    onset, now = latency.step(place), float(np.median(latency.values[-_STEPS:]))
    yield Finding(
        "judge_timeout_or_connection.slower",
        Severity.WARNING,
        f"The judge became {now / first:.1f} times slower",
        f"A judge call took {seconds(first)} at first and takes {seconds(now)} (median of the "
        f"last {_STEPS} steps) since step {onset}; the limit of a call is {_limit(run)}.",
        (run.change(latency, onset, "rose"),),
        (
            Remedy("Test the judge alone; try another deployment or hour"),
            _patient(run),
        ),
        onset,
        source="own baseline: three times the early latency",
    )


def _failed(run: Run) -> Iterator[Finding]:
    """Samples without a reward. Why, the reward records tell."""
    share = run.series(metrics.FAILED_SHARE)
    place = lasting(share.values > _FAILED, 1)
    if place is None:
        return
    window = share.values[-_STEPS:]
    mean, last = float(window.mean()), float(share.values[-1])
    if mean < _FAILED or (last < _HALF and len(share) - place < _STEPS):
        return
    onset = share.step(place)
    yield Finding(
        "judge_timeout_or_connection.samples_failed",
        Severity.ERROR if mean >= _HALF or last >= _HALF else Severity.WARNING,
        f"{percent(last)} of the samples have no reward",
        f"In the last {window.size} steps {percent(mean)} of the samples could not be scored, in "
        f"the newest {percent(last)}; they are left out, so batches are smaller and groups "
        "incomplete.",
        (run.seen("share of samples without a reward", onset, share=last),),
        (Remedy("Test the judge: grubrics-tui judge-test names the class of the error"),),
        onset,
        confidence=0.7,
        not_checked=("why they failed: that stands in the reward records",),
        source="seed guide: the judge does not answer",
    )


def _timeouts(run: Run) -> Iterator[Finding]:
    found = _lasting_share(run, metrics.JUDGE_TIMEOUTS, _TIMEOUTS)
    if found is None:
        return
    onset, share = found
    yield Finding(
        "judge_timeout_or_connection.timeouts",
        Severity.WARNING,
        f"{percent(share)} of the judge calls time out",
        f"Since step {onset} {percent(share)} of the judge's calls reach the limit of time "
        f"({_limit(run)}); each may be paid for and is asked again.",
        (run.seen("calls that timed out", onset, share=share),),
        (_patient(run), Remedy("Fewer calls at once, if the server slows down under load")),
        onset,
        source="history: 60 s where 300 were needed",
    )


def _unreadable(run: Run) -> Iterator[Finding]:
    found = _lasting_share(run, metrics.JUDGE_PARSE_FAILURES, _UNREADABLE)
    if found is None:
        return
    onset, share = found
    yield Finding(
        "judge_parse_failure.share",
        Severity.ERROR if share > 0.2 else Severity.WARNING,
        f"{percent(share)} of the judge's replies cannot be read",
        f"Since step {onset} {percent(share)} of the judge's replies hold no scores that can be "
        "read. A reply cut at its longest length is the usual reason; a reasoning model spends "
        "its thinking from the same budget.",
        (run.seen("replies that could not be parsed", onset, share=share),),
        (
            cures.scaled(
                run.context,
                "judge.max_tokens",
                4,
                "Let replies be longer",
                "the JSON of a reply is no longer cut",
            ),
            Remedy("Ask for JSON mode where the server has it"),
        ),
        onset,
        source="history: 7 % with 2000 tokens, 69 % with a reasoning judge",
    )


def _lasting_share(run: Run, name: str, limit: float) -> tuple[int, float] | None:
    """``(step, share)`` where more than ``limit`` of all calls of the last steps fail so.

    Single failures do not count: there must be three of them, in more than one step.
    """
    failures, calls = run.series(name), run.columns.get(metrics.JUDGE_CALLS)
    if len(failures) < _STEPS or not len(calls):
        return None
    made = np.nan_to_num(calls.at(failures.steps))
    last, asked = failures.values[-_STEPS:], made[-_STEPS:]
    if asked.sum() <= 0 or last.sum() < 3 or (last > 0).sum() < 2:
        return None
    share = float(last.sum() / asked.sum())
    if share <= limit:
        return None
    return failures.step(_begin(failures, made, limit)), share


def _begin(failures: Series, made: np.ndarray, limit: float) -> int:
    sick = failures.values > limit * np.maximum(made, 1)
    quiet = np.flatnonzero(~sick[: -_STEPS + 1])
    start = int(quiet[-1]) + 1 if quiet.size else 0
    return start + int(np.argmax(sick[start:]))


def _limit(run: Run) -> str:
    seconds = run.context.get("judge.timeout_s")
    return "not known" if seconds is None else f"{seconds:g} s"


def _patient(run: Run) -> Remedy:
    return cures.scaled(
        run.context,
        "judge.timeout_s",
        3,
        "Give a call more time",
        "slow replies count in place of being asked for again",
    )
