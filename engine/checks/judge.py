"""Check the credentials of the judge and of W&B, and that the judge keeps up with the run."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from engine.base.addresses import is_loopback
from engine.base.errors import UsageError
from engine.base.judge_providers import JudgeProvider, get_provider, plugin_problems
from engine.base.masking import mask, mask_url
from engine.base.quantities import format_count, format_dollars, format_seconds
from engine.base.writers import untrusted_writer
from engine.checks.check import Check, Subject, fail, ok, skip, summary, warn
from engine.checks.estimate.earlier_runs import judge_times
from engine.checks.estimate.judge import NO_EARLIER_RUN, SLOW_S, JudgeUse, judge_use
from engine.config.credentials import find_wandb_login
from engine.config.env_file import way_on
from engine.config.exposure import cleartext_complaints
from engine.config.load import Config
from engine.config.scoring import asks_judge, scorer
from engine.reward.judge.credentials import CleartextError, Credentials, find_credentials
from engine.reward.judge.settings import JudgeSettings

_JUDGE = "judge"


def skip_reason(config: Config) -> str | None:
    """Return why the config does not use a judge; None if it does."""
    if not config.kind.has_rollouts:
        return f"{config.kind.title} does not use a judge"
    return None if asks_judge(config) else f"no judge is used: {scorer(config)}"


def check_judge(subject: Subject) -> Check:
    """Check the time to judge a step: calls x latency / concurrency."""
    config, plan = subject.config, subject.steps
    if plan is None or plan.rows < plan.batch:
        return skip(_JUDGE, "the training file is unreadable or has too few rows for a batch")
    use = judge_use(config, plan, judge_times(config, subject.runs))
    workers = int(config.get("reward.num_workers"))
    callers = "one reward worker" if workers == 1 else f"all {workers} reward workers together"
    rounds = format_count(use.rounds, "round")
    pace = f"{use.calls.step} calls/step at concurrency {use.limit} ({callers}) = {rounds}"
    if use.latency is None or use.least_step is None:
        return ok(_JUDGE, f"{pace}; latency unknown: {NO_EARLIER_RUN}; {price(use)}")
    latency, least = format_seconds(use.latency), format_seconds(use.least_step)
    message = f"{pace} x {latency} = {least} at least (run '{use.basis}'); {price(use)}"
    enough = use.concurrency_for(SLOW_S)
    if use.least_step <= SLOW_S or enough is None:
        return ok(_JUDGE, message)
    advice = (
        f"to judge a step within {SLOW_S:.0f} s, set the concurrency to {enough} (if the rate "
        "limit allows it)"
    )
    return warn(_JUDGE, f"{message}; {advice}", f"judge.max_concurrent={enough}")


def price(use: JudgeUse) -> str:
    """Describe the number of calls of the run, and their cost or why it is unknown."""
    calls = f"{use.calls.total:,} calls in all"
    if use.calls.validation:
        times = format_count(use.calls.validations, "validation")
        calls += f", {use.calls.validation:,} of them in {times},"
    if use.cost is not None:
        return f"{calls} cost {format_dollars(use.cost)}"
    missing = [reason for reason in use.unknown if reason != NO_EARLIER_RUN]
    return f"{calls.removesuffix(',')}, cost unknown ({'; '.join(missing)})"


_CREDENTIALS = "credentials"

_SHORTEST_WANDB_KEY = 40
_SET = "grubrics-tui keys set NAME writes it into .env; the environment takes precedence"
_PRIVATE = "chmod 600 .env"
_UNIX_LINES = "sed -i 's/\\r$//' .env; unset {name}"


def check_credentials(subject: Subject) -> Check:
    """Check the credentials of the judge, and of W&B if the config logs there."""
    kind = subject.config.kind
    if not kind.has_rollouts:
        judge = [ok(_CREDENTIALS, f"{kind.title} does not use a judge")]
    elif not asks_judge(subject.config):
        judge = [ok(_CREDENTIALS, f"no judge is used: {scorer(subject.config)}")]
    else:
        judge = _judge(subject)
    # Credentials that other programs of the run would send to any address.
    cleartext = [
        fail(_CREDENTIALS, complaint, "an https:// address")
        for complaint in cleartext_complaints(subject.config, subject.env)
    ]
    others = [*_wandb(subject), *cleartext, *_env_file(Path(".env"))]
    return summary(_CREDENTIALS, [*judge, *others], judge[0].message)


def _judge(subject: Subject) -> list[Check]:
    settings = JudgeSettings(**subject.config.section("judge"))
    provider = get_provider(settings.provider)
    plugins = [warn(_CREDENTIALS, problem) for problem in plugin_problems()]
    if not provider.asks_server:
        return [ok(_CREDENTIALS, f"{provider.name} judge: no credentials needed"), *plugins]
    try:
        credentials = find_credentials(settings, subject.env)
    except CleartextError as error:
        return [fail(_CREDENTIALS, str(error), "an https:// address")]
    except UsageError as error:
        if subject.uses_cluster:
            message = f"{error}, unless the cluster's nodes have it in their environment"
            return [warn(_CREDENTIALS, message)]
        return [fail(_CREDENTIALS, str(error), _SET)]
    return [
        ok(_CREDENTIALS, _describe(subject, provider, credentials)),
        *_key_problems(subject, credentials),
        *_line_ends(subject, provider),
        *plugins,
    ]


def _describe(subject: Subject, provider: JudgeProvider, credentials: Credentials) -> str:
    """Describe the masked key, the address, and other keys of the provider that are not used."""
    endpoint = f" at {mask_url(credentials.endpoint)}" if credentials.endpoint else ""
    name = credentials.sign_in.key
    if not subject.env.get(name):
        return f"the judge{endpoint} needs no key"
    names = [sign_in.key for sign_in in provider.sign_ins if sign_in.key != name]
    unused = [other for other in names if subject.env.get(other)]
    note = f"; {', '.join(unused)} is not" if unused else ""
    return f"{name}={mask(credentials.key)}{endpoint} is used{note}"


def _key_problems(subject: Subject, credentials: Credentials) -> Iterator[Check]:
    """Check the form of the endpoint and of the key."""
    endpoint = urlsplit(credentials.endpoint or "")
    is_http = endpoint.scheme in ("http", "https") and endpoint.hostname
    if credentials.endpoint is not None and not is_http:
        address = mask_url(credentials.endpoint)
        yield fail(_CREDENTIALS, f"the judge's endpoint {address!r} is not an http(s) URL")
    name, key = credentials.sign_in.key, credentials.key
    if not subject.env.get(name):
        if not is_loopback(endpoint.hostname or ""):
            message = f"{name} is not set; calls fail if the server requires a key"
            yield warn(_CREDENTIALS, message, _SET)
    elif not key.isprintable() or not key.isascii() or " " in key:
        message = f"{name} contains invalid characters (space, control or non-ASCII)"
        yield fail(_CREDENTIALS, message, _SET)


def _line_ends(subject: Subject, provider: JudgeProvider) -> Iterator[Check]:
    """The judge strips carriage returns; other programs that read these variables fail."""
    for name in sorted(subject.env):
        if name.startswith(provider.variable_prefix) and subject.env[name].endswith("\r"):
            message = (
                f"{name} ends with a carriage return: .env was sourced with Windows line endings"
            )
            yield warn(_CREDENTIALS, message, _UNIX_LINES.format(name=name))


def _env_file(path: Path) -> Iterator[Check]:
    """Whoever can write .env controls what the run loads; whoever can read it has the keys."""
    try:
        complaint, mode = untrusted_writer(path), path.stat().st_mode
    except OSError:
        return
    if complaint is not None:
        yield warn(_CREDENTIALS, f"{path} {complaint} and was not read", way_on(path))
    elif mode & 0o044:
        yield warn(_CREDENTIALS, f"other users can read the keys in {path}", _PRIVATE)


def _wandb(subject: Subject) -> Iterator[Check]:
    """W&B asks for a login on the terminal, which a detached run does not have."""
    loggers = subject.config.listed(subject.config.kind.loggers_key)
    if "wandb" not in loggers:
        return
    folder = subject.env.get("WANDB_DIR")
    if folder and (complaint := _unwritable(Path(folder).expanduser())):
        message = f"WANDB_DIR={folder}: {complaint}; W&B would write to a temporary folder"
        yield warn(_CREDENTIALS, message, "unset WANDB_DIR: W&B then writes into the run's folder")
    if subject.env.get("WANDB_MODE", "online") != "online":
        return
    key = subject.env.get("WANDB_API_KEY")
    if key and len(key.strip()) < _SHORTEST_WANDB_KEY:
        message = f"WANDB_API_KEY has {len(key.strip())} characters; W&B refuses fewer than 40"
        yield warn(_CREDENTIALS, message, "copy the whole key, or WANDB_MODE=offline")
    if not key and find_wandb_login(subject.env) is None:
        message = (
            "the config logs to W&B, but WANDB_API_KEY is not set and no netrc file has a login"
        )
        yield warn(
            _CREDENTIALS,
            message,
            "grubrics-tui keys set WANDB_API_KEY, or wandb login, or WANDB_MODE=offline",
        )


def _unwritable(folder: Path) -> str | None:
    """Why files cannot be made in a folder that may not exist yet; None if they can."""
    nearest = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not nearest.is_dir():
        return f"{nearest} is not a folder"
    return None if os.access(nearest, os.W_OK | os.X_OK) else f"{nearest} is not writable"
