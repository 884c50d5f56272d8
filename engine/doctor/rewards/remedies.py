"""What cures each class of a failed reward. Opposite classes have opposite cures."""

from __future__ import annotations

from collections.abc import Callable

from engine.doctor.metrics import MetricContext
from engine.estimate.judge import allowed
from engine.findings import remedy_builders as cures
from engine.findings.finding import Change, Remedy

Cures = tuple[Remedy, ...]

_TEST = Remedy(
    "Test the judge with the run's own settings",
    (Change("command", "judge", "grubrics-tui judge-test"),),
    "says at once whether the judge answers, and how fast",
)


def remedies(kind: str, context: MetricContext, refused: float = 0.5) -> Cures:
    """For an error kind of ``engine.judge.interface`` or one of the finer ones read here.

    ``refused`` is the share of the calls that fail so.
    """
    if kind == "rate_limit":
        return (_fewer_calls(context, refused), _more_attempts(context))
    return _BY_KIND.get(kind, _code)(context)


def _auth(context: MetricContext) -> Cures:
    key = Remedy("Set the key in .env, which the launcher hands to the workers")
    return (key, _TEST, *cures.without_judge(context))


def _balance(context: MetricContext) -> Cures:
    credit = Remedy("Pay credit into the account, or use another; retries do not help")
    return (credit, *cures.without_judge(context))


def _context(_: MetricContext) -> Cures:
    return (
        Remedy("Fewer or shorter answers a question, or a judge with a longer context"),
        _TEST,
    )


def _request(context: MetricContext) -> Cures:
    warmth = cures.setting(
        context, "judge.temperature", 1.0, "Leave the temperature out", "some models refuse it"
    )
    other = () if context.get("judge.temperature") == 1.0 else (warmth,)
    return (*other, Remedy("Check judge.model and judge.base_url against the message"), _TEST)


def _not_found(context: MetricContext) -> Cures:
    name = Remedy("Set judge.model to a model or deployment that exists")
    return (name, _TEST, *cures.without_judge(context))


def _quota(context: MetricContext) -> Cures:
    credit = Remedy("Add credit, or use another account; retries do not help")
    return (credit, *cures.without_judge(context))


def _timeout(context: MetricContext) -> Cures:
    return (_more_time(context), _fewer_calls(context, 0.5), _TEST)


def _connection(context: MetricContext) -> Cures:
    address = Remedy("Check judge.base_url, the proxy and the server")
    return (address, _TEST, *cures.without_judge(context), _more_attempts(context))


def _server(context: MetricContext) -> Cures:
    return (_more_attempts(context), _TEST, *cures.without_judge(context))


def _content_filter(_: MetricContext) -> Cures:
    return (Remedy("Adjust the deployment's filter, or drop the blocked rows"),)


def _parse(context: MetricContext) -> Cures:
    key, title = "judge.max_tokens", "Let replies be longer"
    longer = cures.scaled(context, key, 4, title, "the JSON of a reply is no longer cut")
    model = Remedy("Use a judge model that keeps to the format that it is asked for")
    return (longer, model, _TEST, *cures.without_judge(context))


def _scale(context: MetricContext) -> Cures:
    model = Remedy("Use a judge model that keeps to the scale that it is asked for")
    return (model, _TEST, *cures.without_judge(context))


def _page(context: MetricContext) -> Cures:
    address = Remedy("Set judge.base_url to the API; for OpenAI's protocol it mostly ends in /v1")
    return (address, _TEST, *cures.without_judge(context))


def _data(_: MetricContext) -> Cures:
    command = "python -m engine.data.prepare preset --only-cached"
    title = "Prepare the data again, with only rows that have gold"
    return (Remedy(title, (Change("command", "data", command),), "every row can be scored"),)


def _nan(context: MetricContext) -> Cures:
    number = Remedy("Return a finite number for every response: look for 0/0 and log 0")
    return (number, *cures.own_reward(context))


def _code(context: MetricContext) -> Cures:
    mend = Remedy("Run the reward function on that rollout and mend it")
    return (mend, *cures.own_reward(context))


def _slow_code(context: MetricContext) -> Cures:
    mend = Remedy("Bound what the function does at the line named: loops, patterns, waiting")
    key, title = "grubrics.reward_timeout_s", "Give a call more time, if it is only slow"
    return (mend, cures.scaled(context, key, 3, title, "slow calls end"))


def _fewer_calls(context: MetricContext, refused: float) -> Remedy:
    """As many as the server let through."""
    key, title, effect = "judge.max_concurrent", "Fewer calls at once", "what the server serves"
    limit = context.get(key)
    if not isinstance(limit, int):
        return Remedy(title, (), effect)
    return cures.setting(context, key, allowed(limit, refused), title, effect)


def _more_time(context: MetricContext) -> Remedy:
    title, effect = "Give a call more time", "slow replies count in place of being repeated"
    return cures.scaled(context, "judge.timeout_s", 3, title, effect)


def _more_attempts(context: MetricContext) -> Remedy:
    title = "Try more often"
    return cures.scaled(context, "judge.max_attempts", 2, title, "a short outage is waited out")


_BY_KIND: dict[str, Callable[[MetricContext], Cures]] = {
    "auth": _auth,
    "no_credentials": _auth,
    "balance": _balance,
    "client": _connection,
    "not_found": _not_found,
    "quota": _quota,
    "timeout": _timeout,
    "connection": _connection,
    "server": _server,
    "content_filter": _content_filter,
    "context": _context,
    "request": _request,
    "parse": _parse,
    "scale": _scale,
    "page": _page,
    "data": _data,
    "nan": _nan,
    "reward_timeout": _slow_code,
}
