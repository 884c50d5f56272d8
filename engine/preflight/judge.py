"""Check the credentials of the judge and of W&B, and that the judge keeps up with the run."""

from __future__ import annotations

import netrc
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import urlsplit

from engine.base.errors import UsageError
from engine.base.masking import mask, mask_url
from engine.base.times import seconds
from engine.base.writers import untrusted_writer
from engine.estimate.earlier_runs import judge_times
from engine.estimate.judge import SLOW_S, JudgeUse, judge_use
from engine.judge.credentials import CleartextError, Credentials, find_credentials
from engine.judge.providers import JudgeProvider, get_provider, plugin_problems
from engine.judge.settings import JudgeSettings
from engine.preflight.check import Check, Subject, fail, ok, skip, summary, warn
from engine.recipe.env_file import way_on
from engine.recipe.exposure import cleartext_complaints
from engine.recipe.recipe import Recipe
from engine.recipe.scoring import asks_judge, scorer
from engine.recipe.steps import count_of, step_plan

_JUDGE = "judge"


def skip_reason(recipe: Recipe) -> str | None:
    """Why the recipe asks no judge; None where it asks one."""
    if not recipe.kind.has_rollouts:
        return f"{recipe.kind.title} does not use a judge"
    return None if asks_judge(recipe) else f"no judge is used: {scorer(recipe)}"


def check_judge(subject: Subject) -> Check:
    """Calls of a step x latency / calls in flight: the least time that a step can take."""
    recipe = subject.recipe
    plan = step_plan(recipe)
    if plan is None or plan.rows < plan.batch:
        return skip(_JUDGE, "the training file is unreadable or has too few rows for a batch")
    use = judge_use(recipe, plan, judge_times(recipe, subject.runs))
    workers = int(recipe.get("reward.num_workers"))
    message = f"{pace(use, workers)}; {price(use)}"
    enough = use.concurrency_for(SLOW_S)
    if use.least_step is None or use.least_step <= SLOW_S or enough is None:
        return ok(_JUDGE, message)
    advice = (
        f"to judge a step within {SLOW_S:.0f} s, set the concurrency to {enough} (if the rate "
        "limit allows it)"
    )
    return warn(_JUDGE, f"{message}; {advice}", f"judge.max_concurrent={enough}")


def pace(use: JudgeUse, workers: int) -> str:
    """The arithmetic of a step's calls."""
    asking = "one reward worker" if workers == 1 else f"all {workers} reward workers together"
    rounds = count_of(use.rounds, "round")
    text = f"{use.calls.step} calls/step at concurrency {use.limit} ({asking}) = {rounds}"
    if use.latency is None or use.least_step is None:
        return f"{text}; latency unknown: no earlier run used this judge"
    each, least = seconds(use.latency), seconds(use.least_step)
    return f"{text} x {each} = {least} at least (run '{use.basis}')"


def price(use: JudgeUse) -> str:
    """How many calls the run makes in all, and what they cost or what is missing to say so."""
    calls = f"{use.calls.total:,} calls in all"
    if use.calls.validation:
        times = count_of(use.calls.validations, "validation")
        calls += f", {use.calls.validation:,} of them in {times},"
    if use.cost is not None:
        return f"{calls} cost ${use.cost:,.2f}"
    missing = [text for text in use.unknown if text != "no earlier run used this judge"]
    return f"{calls.removesuffix(',')}, cost unknown ({'; '.join(missing)})"


_CREDENTIALS = "credentials"

_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_SET = (
    "write NAME=value into .env, which is read without sourcing it; the environment takes "
    "precedence"
)
_PRIVATE = "chmod 600 .env"
_UNIX_LINES = "sed -i 's/\\r$//' .env; unset {name}"


def check_credentials(subject: Subject) -> Check:
    """Credentials of the judge the recipe names, and of wandb when it logs there."""
    kind = subject.recipe.kind
    if not kind.has_rollouts:
        judge = [ok(_CREDENTIALS, f"{kind.title} does not use a judge")]
    elif not asks_judge(subject.recipe):
        judge = [ok(_CREDENTIALS, f"no judge is used: {scorer(subject.recipe)}")]
    else:
        judge = _judge(subject)
    others = [*_wandb(subject), *_cleartext(subject), *_env_file(Path(".env"))]
    return summary(_CREDENTIALS, [*judge, *others], judge[0].message)


def _judge(subject: Subject) -> list[Check]:
    settings = JudgeSettings(**subject.recipe.section("judge"))
    provider = get_provider(settings.provider)
    skipped = [warn(_CREDENTIALS, problem) for problem in plugin_problems()]
    if not provider.asks_server:
        return [ok(_CREDENTIALS, f"{provider.name} judge: no credentials needed"), *skipped]
    try:
        found = find_credentials(settings, subject.env)
    except CleartextError as error:
        return [fail(_CREDENTIALS, str(error), "an https:// address")]
    except UsageError as error:
        if subject.env.get("RAY_ADDRESS", "local") not in ("", "local"):
            return [
                warn(
                    _CREDENTIALS,
                    f"{error}, unless the cluster's nodes have it in their environment",
                )
            ]
        return [fail(_CREDENTIALS, str(error), _SET)]
    return [
        ok(_CREDENTIALS, _in_use(subject, provider, found)),
        *_endpoint(found),
        *_key(subject, found),
        *_line_ends(subject, provider),
        *skipped,
    ]


def _in_use(subject: Subject, provider: JudgeProvider, found: Credentials) -> str:
    """The key, masked, and the address; other keys of the provider that are set but not used."""
    where = f" at {mask_url(found.endpoint)}" if found.endpoint else ""
    name = found.sign_in.key
    if not subject.env.get(name):
        return f"the judge{where} needs no key"
    others = [each.key for each in provider.sign_ins if each.key != name]
    ignored = [other for other in others if subject.env.get(other)]
    note = f"; {', '.join(ignored)} is not" if ignored else ""
    return f"{name}={mask(found.key)}{where} is used{note}"


def _endpoint(found: Credentials) -> Iterator[Check]:
    if found.endpoint is None:
        return
    parts = urlsplit(found.endpoint)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        yield fail(
            _CREDENTIALS, f"the judge's endpoint {mask_url(found.endpoint)!r} is not an http(s) URL"
        )


def _key(subject: Subject, found: Credentials) -> Iterator[Check]:
    name = found.sign_in.key
    if not subject.env.get(name):
        if urlsplit(found.endpoint or "").hostname not in _LOOPBACK:
            yield warn(
                _CREDENTIALS, f"{name} is not set; calls fail if the server requires a key", _SET
            )
    elif not found.key.isprintable() or not found.key.isascii() or " " in found.key:
        yield fail(
            _CREDENTIALS, f"{name} contains invalid characters (space, control or non-ASCII)", _SET
        )


def _line_ends(subject: Subject, provider: JudgeProvider) -> Iterator[Check]:
    """The judge strips carriage returns; other programs that read these variables fail."""
    for name in sorted(subject.env):
        if name.startswith(provider.variable_prefix) and subject.env[name].endswith("\r"):
            message = (
                f"{name} ends with a carriage return: .env was sourced with Windows line endings"
            )
            yield warn(_CREDENTIALS, message, _UNIX_LINES.format(name=name))


def _cleartext(subject: Subject) -> Iterator[Check]:
    """Credentials that other programs of the run would send to any address."""
    for complaint in cleartext_complaints(subject.recipe, subject.env):
        yield fail(_CREDENTIALS, complaint, "an https:// address")


def _env_file(path: Path) -> Iterator[Check]:
    """Whoever may write it decides what the run's processes load; who may read it has the keys."""
    try:
        complaint, mode = untrusted_writer(path), path.stat().st_mode
    except OSError:
        return
    if complaint is not None:
        yield warn(_CREDENTIALS, f"{path} {complaint} and was not read", way_on(path))
    elif mode & 0o044:
        yield warn(_CREDENTIALS, f"other users can read the keys in {path}", _PRIVATE)


def _wandb(subject: Subject) -> Iterator[Check]:
    """wandb asks for a login on the terminal, which a detached run does not have."""
    loggers = subject.recipe.get("trainer.logger") or subject.recipe.get("logging.report_to") or []
    if "wandb" not in loggers or subject.env.get("WANDB_MODE", "online") != "online":
        return
    if not subject.env.get("WANDB_API_KEY") and not _has_wandb_login(subject.env):
        message = (
            "the config logs to W&B, but WANDB_API_KEY is not set and no netrc file has a login"
        )
        yield warn(_CREDENTIALS, message, "wandb login, or WANDB_MODE=offline")


def _has_wandb_login(env: Mapping[str, str]) -> bool:
    """Whether ``wandb login`` left a key for the host that is logged to, in the files that wandb
    reads: ``$NETRC``, else ``~/.netrc`` or ``~/_netrc``."""
    host = urlsplit(env.get("WANDB_BASE_URL") or "https://api.wandb.ai").netloc
    home = Path(env.get("HOME", ""))
    named = env.get("NETRC")
    paths = [Path(named).expanduser()] if named else [home / ".netrc", home / "_netrc"]
    path = next((path for path in paths if path.is_absolute() and path.is_file()), None)
    try:
        login = netrc.netrc(path).authenticators(host) if path else None
    except (netrc.NetrcParseError, OSError, UnicodeDecodeError):
        return False
    return bool(login and login[2])
