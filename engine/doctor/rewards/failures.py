"""Rules for rollouts without a reward: the judge, its reply, the data or the reward code failed.

The recorder writes the class of the last error of every rollout, so nothing has to be guessed: the
class that most rollouts share, from the first step in which it was common, is the cause.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from engine.doctor.metrics.run import percent
from engine.doctor.rewards.rollout_record import Rollout
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
    "shows at once whether the judge answers, and how fast",
)


def _auth(context: MetricContext) -> Remedies:
    key = Remedy("Set the key in .env; the launcher passes it to the workers")
    return (key, _TEST, *fixes.without_judge(context))


def _balance(context: MetricContext) -> Remedies:
    credit = Remedy("Add credit or use another account; retries will not help")
    return (credit, *fixes.without_judge(context))


def _context(_: MetricContext) -> Remedies:
    return (
        Remedy("Use fewer or shorter answers per question, or a judge with a longer context"),
        _TEST,
    )


def _request(context: MetricContext) -> Remedies:
    key, title = "judge.temperature", "Leave judge.temperature at 1.0"
    default = fixes.setting(context, key, 1.0, title, "some models refuse other values")
    other = () if context.get(key) == 1.0 else (default,)
    return (*other, Remedy("Check judge.model and judge.base_url against the message"), _TEST)


def _not_found(context: MetricContext) -> Remedies:
    name = Remedy("Set judge.model to a model or deployment that exists")
    return (name, _TEST, *fixes.without_judge(context))


def _timeout(context: MetricContext) -> Remedies:
    effect = "slow replies count instead of being requested again"
    longer = fixes.scaled(context, "judge.timeout_s", 3, "Raise judge.timeout_s", effect)
    return (longer, _fewer_calls(context, 0.5), _TEST)


def _connection(context: MetricContext) -> Remedies:
    address = Remedy("Check judge.base_url, the proxy and the server")
    return (address, _TEST, *fixes.without_judge(context), _more_attempts(context))


def _server(context: MetricContext) -> Remedies:
    return (_more_attempts(context), _TEST, *fixes.without_judge(context))


def _content_filter(_: MetricContext) -> Remedies:
    return (Remedy("Adjust the deployment's filter, or drop the blocked rows"),)


def _parse(context: MetricContext) -> Remedies:
    key, effect = "judge.max_tokens", "the JSON of a reply is no longer cut"
    longer = fixes.scaled(context, key, 4, "Raise judge.max_tokens", effect)
    model = Remedy("Use a judge model that keeps to the requested format")
    return (longer, model, _TEST, *fixes.without_judge(context))


def _scale(context: MetricContext) -> Remedies:
    model = Remedy("Use a judge model that keeps to the requested scale")
    return (model, _TEST, *fixes.without_judge(context))


def _page(context: MetricContext) -> Remedies:
    address = Remedy("Set judge.base_url to the API; with OpenAI's protocol it mostly ends in /v1")
    return (address, _TEST, *fixes.without_judge(context))


def _data(_: MetricContext) -> Remedies:
    command = "python -m engine.data.prepare preset --only-cached"
    title = "Prepare the data again, with only rows that have gold scores"
    return (Remedy(title, (Change("command", "data", command),), "every row can be scored"),)


def _nan(context: MetricContext) -> Remedies:
    number = Remedy("Return a finite number for every response: look for 0/0 and log 0")
    return (number, *fixes.rubric_reward(context))


def _code(context: MetricContext) -> Remedies:
    fix = Remedy("Reproduce with the reward function on that rollout and fix it")
    return (fix, *fixes.rubric_reward(context))


def _slow_code(context: MetricContext) -> Remedies:
    fix = Remedy("Bound what the function does at the named line: loops, patterns, waiting")
    key, title = "grubrics.reward_timeout_s", "Raise grubrics.reward_timeout_s if it is only slow"
    return (fix, fixes.scaled(context, key, 3, title, "slow calls end"))


def _rate_limit(context: MetricContext) -> Remedies:
    return (_fewer_calls(context, 0.5), _more_attempts(context))


def _fewer_calls(context: MetricContext, refused: float) -> Remedy:
    """The concurrency that the server accepted, where this share of the calls was refused."""
    key, title = "judge.max_concurrent", "Lower judge.max_concurrent"
    effect = "as many calls as the server accepts"
    limit = context.get(key)
    if not isinstance(limit, int):
        return Remedy(title, (), effect)
    return fixes.setting(context, key, allowed(limit, refused), title, effect)


def _more_attempts(context: MetricContext) -> Remedy:
    key, title = "judge.max_attempts", "Raise judge.max_attempts"
    return fixes.scaled(context, key, 2, title, "waits out a short outage")


def _failure(
    kind: str, id: str, title: str, cause: str, remedies: Callable[[MetricContext], Remedies]
) -> Symptom:
    return Symptom(
        id=id,
        severity=Severity.CRITICAL,
        also=(Severity.ERROR, Severity.WARNING),
        title=title,
        cause=cause,
        shape=f"error class `{kind}` in half of the rollouts of the newest steps (error; in all of "
        "them: critical), or in a twentieth of at least 40 (warning)",
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
            "The judge's server knows no model or deployment of that name (404). On Azure the name "
            "is the deployment's, not the model's.",
            _not_found,
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
            _rate_limit,
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
            _timeout,
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
            _server,
        ),
        (
            "content_filter",
            "judge_content_filter",
            "The provider's content filter blocks the judge",
            "The provider's content policy refuses the prompt or the reply.",
            _content_filter,
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
            _context,
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
            _parse,
        ),
        (
            "scale",
            "judge_parse_failure.scale",
            "Judge scores on another scale",
            "The judge's totals are not between 0 and 1, but for example points of 10 or percent. "
            "They are not used: clipping at 1 would make them all equal.",
            _scale,
        ),
        (
            "page",
            "config_error.judge_address",
            "A web page answers instead of the judge",
            "The judge's address is that of a web site, a login page or a proxy instead of an API: "
            "it answers with HTML.",
            _page,
        ),
        (
            "data",
            "data_missing_or_schema.gold",
            "Rows have no usable gold scores",
            "The training rows lack precomputed answers or gold scores, or have fewer than two, or "
            "gaps in them: there is nothing to compare the judge with.",
            _data,
        ),
        (
            "nan",
            "reward_function_error.nan",
            "Reward function returns NaN",
            "The reward function returned no finite number.",
            _nan,
        ),
        (
            _HUNG,
            "reward_function_error.timeout",
            "Reward function hangs",
            "Calls of the reward function were ended at grubrics.reward_timeout_s. It loops, or it "
            "waits for something that does not arrive.",
            _slow_code,
        ),
        (
            "other",
            "reward_function_error",
            "Reward function raises an exception",
            "The reward code raised an exception.",
            _code,
        ),
    )
}
"""By the kinds of ``engine.judge.interface`` and the finer ones of ``rollout_record``."""
REWARD_TIMEOUT = Symptom(
    id="reward_function_error.timeout",
    severity=Severity.WARNING,
    title="Reward function hangs",
    cause="{calls} ended at grubrics.reward_timeout_s, the first in step {onset}; the rollouts "
    "have no reward.{message}",
    shape="a single call that was ended at the time limit: each has cost its step the whole limit",
    remedies=lambda case: _slow_code(case.context),
    source="the error class that the reward recorded",
)


def _retries_of(kind: str) -> Symptom:
    """A finding about repeated calls belongs to the class that they fail with."""
    failure = FAILURES.get(kind, FAILURES["other"])
    return Symptom(
        id=f"{failure.family}.retries",
        severity=Severity.WARNING,
        title="{share} of judge calls needed retries",
        cause=f"{failure.cause} {{count}} of the last {{tries}} attempts failed with this error. "
        "The retries succeeded but cost time and money.",
        shape=f"every rollout has a reward, after 30% failed attempts and more, mostly `{kind}`",
        remedies=failure.remedies,
        source="failed attempts in the reward records",
    )


RETRIES = {kind: _retries_of(kind) for kind in _REPEATED}


def remedies_of(kind: str, context: MetricContext, refused: float = 0.5) -> Remedies:
    """For an error kind of ``engine.judge.interface`` or a finer one of ``rollout_record``.

    ``refused`` is the share of the calls that failed with it.
    """
    if kind == "rate_limit":
        return (_fewer_calls(context, refused), _more_attempts(context))
    return tuple(FAILURES.get(kind, FAILURES["other"]).remedies(Case(context)))


def check(records: RewardSteps) -> Iterator[Finding]:
    """One finding for each class of error that is common now, the most frequent first."""
    steps = records.steps
    recent = _recent(steps)
    total = sum(counts.records for counts in recent)
    kinds = {kind for counts in recent for kind in counts.failures}
    failed = {kind: sum(counts.failures[kind] for counts in recent) for kind in kinds}
    for kind in sorted(kinds, key=lambda name: -failed[name]):
        share = failed[kind] / total
        common = share >= _HALF and total >= _FEWEST
        if common or (share >= _SOME and total >= _ENOUGH):
            yield _failed(kind, share, records)
        elif kind == _HUNG:
            yield _hung(records)
    if _HUNG not in kinds and any(counts.failures[_HUNG] for counts in steps):
        yield _hung(records)
    if not kinds:
        yield from _retries(recent, records)


def _recent(steps: Sequence[StepCounts]) -> Sequence[StepCounts]:
    """The newest steps; the last one alone if most of its rollouts failed."""
    newest = steps[-1:]
    if newest and newest[0].records >= _FEWEST and newest[0].scored < newest[0].records / 2:
        return newest
    return steps[-_WINDOW:]


def _failed(kind: str, share: float, records: RewardSteps) -> Finding:
    symptom = FAILURES.get(kind, FAILURES["other"])
    onset = _onset(kind, records.steps, min(_HALF, share / 2))
    since = "before step 1" if onset == 0 else f"step {onset}"
    evidence, message = _examples(kind, records, onset)
    severity = Severity.WARNING
    if share >= _HALF:
        severity = Severity.CRITICAL if share > 0.99 else Severity.ERROR
    return symptom.finding(
        Case(records.context, onset),
        *evidence,
        severity=severity,
        remedies=remedies_of(kind, records.context, _refused(kind, records.steps[-_WINDOW:])),
        detail=f"{percent(share)} of the newest rollouts have no reward for this reason, since "
        f"{since}.{message}",
    )


def _hung(records: RewardSteps) -> Finding:
    """A function that hangs now and then."""
    sick = [counts for counts in records.steps if counts.failures[_HUNG]]
    onset, count = sick[0].step, sum(counts.failures[_HUNG] for counts in sick)
    evidence, message = _examples(_HUNG, records, onset)
    return REWARD_TIMEOUT.finding(
        Case(records.context, onset),
        *evidence,
        calls="1 call was" if count == 1 else f"{count} calls were",
        onset=onset,
        message=message,
    )


def _examples(kind: str, records: RewardSteps, onset: int) -> tuple[list[Evidence], str]:
    """The first rollouts that failed with it since the onset, and what the first one says."""
    since = (counts for counts in records.steps if counts.step >= onset)
    every: Iterator[list[Rollout]] = (counts.failed_examples.get(kind, []) for counts in since)
    rollouts = next((found for found in every if found), [])
    message = f" Message: {rollouts[0].message}" if rollouts else ""
    return [rollout.evidence(records.path) for rollout in rollouts], message


def _refused(kind: str, steps: Sequence[StepCounts]) -> float:
    """The share of all attempts that failed with it."""
    tries = sum(counts.tries for counts in steps)
    return sum(counts.failed_tries[kind] for counts in steps) / max(1, tries) or 0.5


def _onset(kind: str, steps: Sequence[StepCounts], limit: float) -> int:
    """The first step of the last stretch in which the class was common."""
    onset = steps[-1].step
    for counts in reversed(steps):
        if counts.share(kind) >= limit:
            onset = counts.step
        elif counts.records >= _FEWEST:
            break
    return onset


def _retries(recent: Sequence[StepCounts], records: RewardSteps) -> Iterator[Finding]:
    """Every rollout got a reward, but after many failed attempts."""
    tries = sum(counts.tries for counts in recent)
    failed = sum((counts.failed_tries for counts in recent), start=Counter[str]())
    if tries < _ENOUGH or failed.total() < _RETRIED * tries:
        return
    kind, count = failed.most_common(1)[0]
    share = failed.total() / tries
    steps = records.steps
    onset = next(s.step for s in steps if s.failed_tries.total() >= share / 2 * s.tries > 0)
    yield (RETRIES.get(kind) or _retries_of(kind)).finding(
        Case(records.context, onset),
        remedies=remedies_of(kind, records.context, count / tries),
        share=percent(share),
        count=count,
        tries=tries,
    )
