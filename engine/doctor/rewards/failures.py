"""Rollouts without a reward: which of the judge, its reply, the data or the code is at fault.

The recorder writes the class of the last error of every rollout, so nothing has to be guessed:
the class that most rollouts share, from the first step in which it was common, is the cause.
Thresholds: half of the rollouts of the newest steps (error; all of them: critical), or a twentieth
of at least 40 (warning). Retries that a later attempt made good are a warning from 30 % of the
attempts. Source: facts of grubrics' history (401, 404, 429 cascades, timeouts, cut replies).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from engine.doctor.metrics.run import percent
from engine.doctor.rewards.remedies import remedies
from engine.doctor.rewards.rollout_record import Rollout
from engine.doctor.rewards.step_counts import Tally
from engine.findings.finding import Finding, Severity
from engine.findings.run_context import MetricContext

_WINDOW = 3
_FEWEST = 4
_HALF = 0.5
_SOME = 0.05
_ENOUGH = 40
_RETRIED = 0.3
_HUNG = "reward_timeout"


@dataclass(frozen=True, slots=True)
class Class:
    """An error class: the finding's id, its title, and why it happens, in a sentence."""

    id: str
    title: str
    cause: str


CLASSES = {
    "auth": Class(
        "judge_auth",
        "The judge refuses the key",
        "The judge answers that the caller is not allowed: the key is wrong, expired or missing "
        "in the reward workers' environment.",
    ),
    "not_found": Class(
        "judge_auth.not_found",
        "The judge's model or deployment does not exist",
        "The judge's server knows no model or deployment of that name (404). On Azure the name is "
        "the deployment's, not the model's.",
    ),
    "no_credentials": Class(
        "judge_auth.missing",
        "No credentials of the judge are set",
        "The key and, for Azure, the endpoint of the judge are read from the environment or from "
        ".env.",
    ),
    "balance": Class(
        "judge_auth.balance",
        "The judge's account has no balance",
        "The judge's server asks for payment (402): the account's balance is used up, and every "
        "call will fail.",
    ),
    "rate_limit": Class(
        "judge_rate_limit",
        "The judge limits the rate of calls",
        "The judge refuses calls because too many arrive at once (429).",
    ),
    "quota": Class(
        "judge_rate_limit.quota",
        "The judge's quota is used up",
        "The account has no credit left (insufficient quota): waiting and asking again is of no "
        "use.",
    ),
    "timeout": Class(
        "judge_timeout_or_connection.timeout",
        "The judge does not answer in time",
        "Calls reach the limit of time before the judge has answered. A reasoning model needs "
        "minutes for a long answer.",
    ),
    "connection": Class(
        "judge_timeout_or_connection.connection",
        "The judge cannot be reached",
        "No connection to the judge's address comes about: server down, wrong address, proxy or "
        "network.",
    ),
    "server": Class(
        "judge_timeout_or_connection.server",
        "The judge's server fails",
        "The judge's server answers with an error of its own (5xx).",
    ),
    "content_filter": Class(
        "judge_content_filter",
        "The provider's filter blocks the judge",
        "The provider's content policy refuses the prompt or the reply.",
    ),
    "client": Class(
        "judge_timeout_or_connection.client",
        "The call fails before it reaches the judge",
        "The client of the judge raised an exception of its own.",
    ),
    "context": Class(
        "context_length_exceeded.judge",
        "Answers and rubric are longer than the judge's model can read",
        "One call holds the question, all of its answers and the rubric, and they exceed the "
        "judge's context.",
    ),
    "request": Class(
        "config_error.judge_request",
        "The judge's server refuses the request",
        "The server knows the caller but not what is asked for: a parameter that this model does "
        "not take, or an address of another interface, or one that leads elsewhere.",
    ),
    "parse": Class(
        "judge_parse_failure",
        "The judge's replies cannot be read",
        "The judge answers, but its reply holds no scores that can be read: it was cut at its "
        "longest length, or the model does not keep to the format.",
    ),
    "scale": Class(
        "judge_parse_failure.scale",
        "The judge scores on another scale",
        "The judge gives totals outside of 0 to 1, such as points of 10 or percent. They are not "
        "used: a limit at 1 would make them all equal.",
    ),
    "page": Class(
        "config_error.judge_address",
        "A web page answers in place of the judge",
        "The judge's address is that of a web site, a login or a proxy, and not of an API: it "
        "answers with HTML.",
    ),
    "data": Class(
        "data_missing_or_schema.gold",
        "Rows have no usable gold",
        "The training rows lack precomputed answers or gold scores, or hold fewer than two, or "
        "gaps in them: there is nothing to compare the judge with.",
    ),
    "nan": Class(
        "reward_function_error.nan",
        "The reward function returns NaN",
        "The reward function returned no finite number.",
    ),
    "reward_timeout": Class(
        "reward_function_error.timeout",
        "The reward function hangs",
        "Calls of the reward function were cut at grubrics.reward_timeout_s. It loops, or it waits "
        "for something that does not come.",
    ),
    "other": Class(
        "reward_function_error",
        "The reward function raises",
        "The reward code raised an exception.",
    ),
}


def findings(steps: Sequence[Tally], context: MetricContext, path: str) -> Iterator[Finding]:
    """One finding for each class of error that is common now, the commonest first."""
    recent = _recent(steps)
    records = sum(tally.records for tally in recent)
    kinds = {kind for tally in recent for kind in tally.failures}
    counts = {kind: sum(tally.failures[kind] for tally in recent) for kind in kinds}
    for kind in sorted(kinds, key=lambda one: -counts[one]):
        share = counts[kind] / records
        common = share >= _HALF and records >= _FEWEST
        if common or (share >= _SOME and records >= _ENOUGH):
            yield _failed(kind, share, steps, context, path)
        elif kind == _HUNG:
            yield _hung(steps, context, path)
    if _HUNG not in kinds and any(tally.failures[_HUNG] for tally in steps):
        yield _hung(steps, context, path)
    if not kinds:
        yield from _retries(recent, steps, context)


def _recent(steps: Sequence[Tally]) -> Sequence[Tally]:
    """The newest steps; of a run that ends in failures the last one alone may tell."""
    newest = steps[-1:]
    if newest and newest[0].records >= _FEWEST and newest[0].scored < newest[0].records / 2:
        return newest
    return steps[-_WINDOW:]


def _failed(
    kind: str, share: float, steps: Sequence[Tally], context: MetricContext, path: str
) -> Finding:
    known = CLASSES.get(kind, CLASSES["other"])
    onset = _onset(kind, steps, min(_HALF, share / 2))
    telling = _telling(kind, steps, onset)
    message = f" It says: {telling[0].message}" if telling else ""
    severity = Severity.WARNING
    if share >= _HALF:
        severity = Severity.CRITICAL if share > 0.99 else Severity.ERROR
    where = "before step 1" if onset == 0 else f"step {onset}"
    return Finding(
        known.id,
        severity,
        known.title,
        f"{known.cause} {percent(share)} of the newest rollouts have no reward for this reason, "
        f"since {where}.{message}",
        tuple(one.evidence(path) for one in telling),
        remedies(kind, context, _refused(kind, steps[-_WINDOW:])),
        onset,
        source="the error class that the reward recorded",
    )


def _hung(steps: Sequence[Tally], context: MetricContext, path: str) -> Finding:
    """A function that hangs now and then is reported from the first time: each call that is cut
    has cost its step the whole limit."""
    known = CLASSES[_HUNG]
    sick = [tally for tally in steps if tally.failures[_HUNG]]
    telling = _telling(_HUNG, steps, sick[0].step)
    count = sum(tally.failures[_HUNG] for tally in sick)
    calls = "1 call was" if count == 1 else f"{count} calls were"
    message = f" It says: {telling[0].message}" if telling else ""
    return Finding(
        known.id,
        Severity.WARNING,
        known.title,
        f"{calls} cut at grubrics.reward_timeout_s, the first in step {sick[0].step}; the rollouts "
        f"have no reward.{message}",
        tuple(one.evidence(path) for one in telling),
        remedies(_HUNG, context),
        sick[0].step,
        source="the error class that the reward recorded",
    )


def _refused(kind: str, steps: Sequence[Tally]) -> float:
    """The share of all attempts that failed so."""
    tries = sum(tally.tries for tally in steps)
    return sum(tally.failed_tries[kind] for tally in steps) / max(1, tries) or 0.5


def _onset(kind: str, steps: Sequence[Tally], limit: float) -> int:
    """The first step of the last stretch in which the class was common."""
    onset = steps[-1].step
    for tally in reversed(steps):
        if tally.share(kind) >= limit:
            onset = tally.step
        elif tally.records >= _FEWEST:
            break
    return onset


def _telling(kind: str, steps: Sequence[Tally], onset: int) -> list[Rollout]:
    found = (tally.telling.get(kind) for tally in steps if tally.step >= onset)
    return next((rollouts for rollouts in found if rollouts), [])


def _retries(
    recent: Sequence[Tally], steps: Sequence[Tally], context: MetricContext
) -> Iterator[Finding]:
    """Every reward came in the end, after many attempts that failed."""
    tries = sum(tally.tries for tally in recent)
    failed = sum((tally.failed_tries for tally in recent), start=Counter[str]())
    if tries < _ENOUGH or failed.total() < _RETRIED * tries:
        return
    kind, count = failed.most_common(1)[0]
    known = CLASSES.get(kind, CLASSES["other"])
    share = failed.total() / tries
    first = next(one.step for one in steps if one.failed_tries.total() >= share / 2 * one.tries > 0)
    yield Finding(
        f"{known.id.split('.')[0]}.retries",
        Severity.WARNING,
        f"{percent(share)} of the judge calls must be repeated",
        f"{known.cause} {count} of the last {tries} attempts failed so; a later attempt made "
        "good, which costs time and money.",
        (),
        remedies(kind, context, count / tries),
        first,
        source="failed attempts in the reward records",
    )
