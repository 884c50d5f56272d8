"""Rules for rollouts without a reward: the judge, its reply, the data or the reward code failed.

The recorder writes the class of each rollout's last error. The most frequent class is the cause,
from the first step in which it was common.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from engine.doctor.metrics.run import percent
from engine.doctor.rewards.step_counts import RewardSteps, StepCounts
from engine.estimate.judge import allowed
from engine.findings import remedy_builders as fixes
from engine.findings.finding import Change, Evidence, Finding, Remedy, Severity
from engine.findings.run_context import MetricContext
from engine.findings.symptom import Case, Symptom

Remedies = tuple[Remedy, ...]

_WINDOW = 3
_FEWEST = 4
_HALF = 0.5
_SOME = 0.05
_ENOUGH = 40
_RETRIED = 0.3
_HUNG = "reward_timeout"
_REPEATED = ("connection", "parse", "rate_limit", "server", "timeout")
"""Errors after which a judge call is repeated (``engine.judge.api``, which imports openai)."""

_TEST = Remedy(
    "Test the judge with the run's settings",
    (Change("command", "judge", "grubrics-tui judge-test"),),
    "shows whether the judge answers, and how fast",
)


def _auth(context: MetricContext) -> Remedies:
    key = Remedy("Set the key in .env; the launcher passes it to the workers")
    return (key, _TEST, *fixes.without_judge(context))


def _balance(context: MetricContext) -> Remedies:
    credit = Remedy("Add credit or use another account; retries will not help")
    return (credit, *fixes.without_judge(context))


def _request(context: MetricContext) -> Remedies:
    key, title = "judge.temperature", "Leave judge.temperature at 1.0"
    default = fixes.setting(context, key, 1.0, title, "some models refuse other values")
    temperature = () if context.get(key) == 1.0 else (default,)
    return (*temperature, Remedy("Check judge.model and judge.base_url against the message"), _TEST)


def _connection(context: MetricContext) -> Remedies:
    address = Remedy("Check judge.base_url, the proxy and the server")
    return (address, _TEST, *fixes.without_judge(context), _more_attempts(context))


def _slow_code(context: MetricContext) -> Remedies:
    fix = Remedy("Limit loops, patterns and waits at the named line")
    key, title = "grubrics.reward_timeout_s", "Raise grubrics.reward_timeout_s if it is just slow"
    return (fix, fixes.scaled(context, key, 3, title, "slow calls finish"))


def _fewer_calls(context: MetricContext, refused: float) -> Remedy:
    """Propose the concurrency that the server accepts if it refused this share of the calls."""
    key, title = "judge.max_concurrent", "Lower judge.max_concurrent"
    effect = "no more calls than the server accepts"
    limit = context.get(key)
    if not isinstance(limit, int):
        return Remedy(title, (), effect)
    return fixes.setting(context, key, allowed(limit, refused), title, effect)


def _more_attempts(context: MetricContext) -> Remedy:
    key, title = "judge.max_attempts", "Raise judge.max_attempts"
    return fixes.scaled(context, key, 2, title, "survives a short outage")


def _failure(
    kind: str, id: str, title: str, cause: str, remedies: Callable[[MetricContext], Remedies]
) -> Symptom:
    return Symptom(
        id=id,
        severity=Severity.CRITICAL,
        also=(Severity.ERROR, Severity.WARNING),
        title=title,
        cause=cause,
        shape=f"error class `{kind}` in at least half of the rollouts of the newest steps (error; "
        "critical if in all), or in a twentieth of at least 40 rollouts (warning)",
        remedies=lambda case: remedies(case.context),
        source="the error class that the reward recorded",
    )


FAILURES = {
    kind: _failure(kind, id, title, cause, remedies)
    for kind, id, title, cause, remedies in (
        (
            "auth",
            "judge_auth",
            "Judge rejected the API key",
            "The judge's server does not authorize the caller: the key is wrong, expired or "
            "missing in the environment of the reward workers.",
            _auth,
        ),
        (
            "not_found",
            "judge_auth.not_found",
            "The judge's model or deployment does not exist",
            "The judge's server has no model or deployment of that name (404). On Azure, "
            "judge.model is the name of the deployment, not of the model.",
            lambda context: (
                Remedy("Set judge.model to a model or deployment that exists"),
                _TEST,
                *fixes.without_judge(context),
            ),
        ),
        (
            "no_credentials",
            "judge_auth.missing",
            "No judge credentials are set",
            "The key and, for Azure, the endpoint of the judge are read from the environment or "
            "from .env.",
            _auth,
        ),
        (
            "balance",
            "judge_auth.balance",
            "The judge's account has no balance",
            "The judge's server asks for payment (402): the account's balance is used up, and "
            "every call will fail.",
            _balance,
        ),
        (
            "rate_limit",
            "judge_rate_limit",
            "Judge rate limit exceeded (429)",
            "The judge refuses calls because too many arrive at once (429).",
            lambda context: (_fewer_calls(context, 0.5), _more_attempts(context)),
        ),
        (
            "quota",
            "judge_rate_limit.quota",
            "The judge's quota is used up",
            "The account has no credit left (insufficient quota): retrying later will not help.",
            _balance,
        ),
        (
            "timeout",
            "judge_timeout_or_connection.timeout",
            "Judge calls time out",
            "Calls hit the time limit before the judge has answered. A reasoning model needs "
            "minutes for a long answer.",
            lambda context: (
                fixes.scaled(
                    context,
                    "judge.timeout_s",
                    3,
                    "Raise judge.timeout_s",
                    "slow replies count instead of being requested again",
                ),
                _fewer_calls(context, 0.5),
                _TEST,
            ),
        ),
        (
            "connection",
            "judge_timeout_or_connection.connection",
            "Judge is unreachable",
            "Cannot connect to the judge: server down, wrong address, proxy or network.",
            _connection,
        ),
        (
            "server",
            "judge_timeout_or_connection.server",
            "Judge server error (5xx)",
            "The judge's server answers with an internal error (5xx).",
            lambda context: (_more_attempts(context), _TEST, *fixes.without_judge(context)),
        ),
        (
            "content_filter",
            "judge_content_filter",
            "The provider's content filter blocks the judge",
            "The provider's content policy refuses the prompt or the reply.",
            lambda _: (Remedy("Adjust the deployment's filter, or drop the blocked rows"),),
        ),
        (
            "client",
            "judge_timeout_or_connection.client",
            "Judge calls fail before they reach the judge",
            "The client library of the judge raised an exception.",
            _connection,
        ),
        (
            "context",
            "context_length_exceeded.judge",
            "Answers and rubric exceed the judge's context",
            "One call contains the question, all of its answers and the rubric, and they are "
            "longer than the context of the judge's model.",
            lambda _: (
                Remedy(
                    "Use fewer or shorter answers per question, or a judge with a longer context"
                ),
                _TEST,
            ),
        ),
        (
            "request",
            "config_error.judge_request",
            "The judge's server refuses the request",
            "The server accepts the caller but not the request: a parameter that this model does "
            "not support, or the wrong address or API.",
            _request,
        ),
        (
            "parse",
            "judge_parse_failure",
            "Judge replies cannot be parsed",
            "The judge answers, but its reply contains no scores that can be parsed: it was cut at "
            "its length limit, or the model does not keep to the format.",
            lambda context: (
                fixes.scaled(
                    context,
                    "judge.max_tokens",
                    4,
                    "Raise judge.max_tokens",
                    "the JSON of a reply is no longer cut",
                ),
                Remedy("Use a judge model that keeps to the requested format"),
                _TEST,
                *fixes.without_judge(context),
            ),
        ),
        (
            "form",
            "judge_parse_failure.form",
            "The judge does not answer in the requested form",
            "The judge's model ended its replies itself, and they contain no scores that can be "
            "parsed.",
            lambda context: (
                Remedy("Use a judge model that keeps to the requested format"),
                _TEST,
                *fixes.without_judge(context),
            ),
        ),
        (
            "scale",
            "judge_parse_failure.scale",
            "Judge uses another scale for scores",
            "The judge's totals are not between 0 and 1, but for example points of 10 or percent. "
            "They are not used: clipping at 1 would make them all equal.",
            lambda context: (
                Remedy("Use a judge model that keeps to the requested scale"),
                _TEST,
                *fixes.without_judge(context),
            ),
        ),
        (
            "page",
            "config_error.judge_address",
            "The judge's address is not that of an API",
            "The judge's address is that of a web site, a login page or a proxy, or it lacks a "
            "part of its path: it answers with HTML, or knows no such path (404).",
            lambda context: (
                Remedy(
                    "Set judge.base_url to the API; for OpenAI's protocol it usually ends in /v1"
                ),
                _TEST,
                *fixes.without_judge(context),
            ),
        ),
        (
            "data",
            "data_missing_or_schema.gold",
            "Rows have no usable gold scores",
            "The training rows lack precomputed answers or gold scores, or have fewer than two, or "
            "gaps in them: there is nothing to compare the judge with.",
            lambda _: (
                Remedy(
                    "Prepare the data again, with only rows that have gold scores",
                    (
                        Change(
                            "command", "data", "python -m engine.data.prepare preset --only-cached"
                        ),
                    ),
                    "every row can be scored",
                ),
            ),
        ),
        (
            "nan",
            "reward_function_error.nan",
            "Reward function returns NaN",
            "The reward function returned no finite number.",
            lambda context: (
                Remedy("Return a finite number for every response: look for 0/0 and log 0"),
                *fixes.rubric_reward(context),
            ),
        ),
        (
            "result",
            "reward_function_error.no_number",
            "Reward function returns no number",
            "The reward function returned something that is not a score: a number, or a mapping "
            "with a number as score.",
            lambda context: (
                Remedy("Return a number for every response: convert text, and handle None"),
                *fixes.rubric_reward(context),
            ),
        ),
        (
            _HUNG,
            "reward_function_error.timeout",
            "Reward function hangs",
            "Calls of the reward function were stopped at grubrics.reward_timeout_s: it loops, or "
            "it waits for something that does not arrive.",
            _slow_code,
        ),
        (
            "other",
            "reward_function_error",
            "Reward function raises an exception",
            "The reward code raised an exception.",
            lambda context: (
                Remedy("Reproduce the error with the reward function on that rollout, and fix it"),
                *fixes.rubric_reward(context),
            ),
        ),
    )
}
"""The symptoms by error kind (``engine.judge.interface``, ``rollout_record``)."""
REWARD_TIMEOUT = Symptom(
    id="reward_function_error.timeout",
    severity=Severity.WARNING,
    title="Reward function hangs",
    cause="{calls} stopped at grubrics.reward_timeout_s, the first in step {onset}; the rollouts "
    "have no reward.{message}",
    shape="at least one call that was stopped at the time limit: its step lasted that long",
    remedies=lambda case: _slow_code(case.context),
    source="the error class that the reward recorded",
)


def _retries_of(kind: str) -> Symptom:
    """Return the symptom of repeated calls; its category is that of the error that repeats."""
    failure = FAILURES.get(kind, FAILURES["other"])
    return Symptom(
        id=f"{failure.category}.retries",
        severity=Severity.WARNING,
        title="{share} of judge calls needed retries",
        cause=f"{failure.cause} {{count}} of the last {{tries}} attempts failed with this error. "
        "The retries succeeded but cost time and money.",
        shape="every rollout has a reward, but at least 30% of the attempts failed, mostly with "
        f"`{kind}`",
        remedies=failure.remedies,
        source="failed attempts in the reward records",
    )


RETRIES = {kind: _retries_of(kind) for kind in _REPEATED}


def remedies_of(kind: str, context: MetricContext, refused: float = 0.5) -> Remedies:
    """Return the fixes for an error kind (``engine.judge.interface``, ``rollout_record``).

    ``refused`` is the share of the calls that failed with it.
    """
    if kind == "rate_limit":
        return (_fewer_calls(context, refused), _more_attempts(context))
    return tuple(FAILURES.get(kind, FAILURES["other"]).remedies(Case(context)))


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
    return FAILURES.get(kind, FAILURES["other"]).finding(
        Case(records.context, onset),
        *evidence,
        severity=severity,
        remedies=remedies_of(kind, records.context, refused),
        detail=f"{percent(share)} of the newest rollouts have no reward for this reason, since "
        f"{f'step {onset}' if onset else 'before step 1'}.{message}",
    )


def _hung(records: RewardSteps) -> Finding:
    """Report a function that hangs in some calls."""
    hung = [counts for counts in records.steps if counts.failures[_HUNG]]
    onset, count = hung[0].step, sum(counts.failures[_HUNG] for counts in hung)
    evidence, message = _examples(_HUNG, records, onset)
    return REWARD_TIMEOUT.finding(
        Case(records.context, onset),
        *evidence,
        calls="1 call was" if count == 1 else f"{count} calls were",
        onset=onset,
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
    yield (RETRIES.get(kind) or _retries_of(kind)).finding(
        Case(records.context, onset),
        remedies=remedies_of(kind, records.context, count / tries),
        share=percent(share),
        count=count,
        tries=tries,
    )
