"""Tests the judge of a run: whether it answers, how fast, or with which class of error it fails.

The calls use the run's effective provider, model, address and limits, so what fails here fails in
the run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from urllib.parse import urlsplit

from engine.base.errors import UsageError
from engine.base.jsonl import integer
from engine.base.judge_providers import get_provider
from engine.base.masking import mask_url
from engine.checks.estimate.judge import SLOW_S, allowed, in_flight, pace
from engine.config.load import Config
from engine.config.scoring import asks_judge, scorer
from engine.doctor.finding_kinds import KINDS
from engine.doctor.metrics import RuleContext
from engine.doctor.metrics.logged_run import percent
from engine.doctor.rewards.failure_kinds import FAILURES, fixes_of, refine_kind
from engine.reward.judge.credentials import find_credentials
from engine.reward.judge.settings import JudgeSettings
from engine.reward.judge.trial import Probe, Trial, try_judge
from engine.run.finding import Change, Evidence, Finding, Severity
from engine.run.finding_kind import Case
from engine.run.history.reward_records import ScoringError


@dataclass(frozen=True)
class Advice:
    """What ``judge.max_concurrent`` should be, and why. Seconds are of a step's judging."""

    calls: int
    latency: float
    limit: int
    recommended: int
    seconds: float
    allowed: int | None
    """Concurrent calls that were served if some were refused; None if none was."""


@dataclass(frozen=True)
class JudgeTest:
    """The result. ``endpoint`` is host and port, without path or login; None for the offline judge
    and if credentials are missing. ``trial`` is None if no call could be made. ``findings`` are
    empty if the judge works."""

    settings: JudgeSettings
    endpoint: str | None
    trial: Trial | None
    findings: tuple[Finding, ...]
    advice: Advice | None

    def to_json(self) -> dict[str, object]:
        limits = {"max_concurrent", "timeout_s", "max_tokens", "temperature"}
        return {
            "ok": not self.findings,
            "provider": self.settings.provider,
            "model": self.settings.model,
            "endpoint": self.endpoint,
            "limits": self.settings.model_dump(include=limits),
            "trial": None if self.trial is None else self.trial.to_json(),
            "advice": None if self.advice is None else asdict(self.advice),
            "findings": [finding.to_json() for finding in self.findings],
        }


def run_test(
    config: Config, env: Mapping[str, str], calls: int, probe: Probe | None = None
) -> JudgeTest:
    """Make one call that is scored, then ``calls`` more at the run's concurrency.

    ``env`` holds the credentials; ``probe`` replaces the built-in question. UsageError for a config
    without a judge.
    """
    if not config.kind.has_rollouts:
        raise UsageError(f"{config.path}: {config.kind.title} does not use a judge")
    if not asks_judge(config):
        raise UsageError(f"{config.path} does not use a judge: {scorer(config)}")
    settings = JudgeSettings(**config.section("judge"))
    context = RuleContext(config.values, config.kind)
    try:
        endpoint = _endpoint(settings, env)
    except UsageError as error:
        missing = _finding("no_credentials", str(error), 1.0, context)
        return JudgeTest(settings, None, None, (missing,), None)
    trial = try_judge(settings, env, calls, probe)
    advice = _advice(context, trial)
    findings = _findings(trial, context)
    if advice is not None:
        findings = [_with_concurrency(finding, advice.recommended) for finding in findings]
    return JudgeTest(settings, endpoint, trial, tuple(findings), advice)


def _with_concurrency(finding: Finding, recommended: int) -> Finding:
    """Replace an estimate from the run's records by the concurrency that was measured here."""

    def adjust(change: Change) -> Change:
        is_limit = change.key == "judge.max_concurrent"
        return replace(change, after=recommended) if is_limit else change

    fixes = tuple(replace(fix, changes=tuple(map(adjust, fix.changes))) for fix in finding.fixes)
    return replace(finding, fixes=fixes)


def _endpoint(settings: JudgeSettings, env: Mapping[str, str]) -> str | None:
    provider = get_provider(settings.provider)
    if not provider.asks_server:
        return None
    address = find_credentials(settings, env).endpoint or provider.default_base_url or ""
    # An invalid address is not shown: it may contain a key.
    return urlsplit(mask_url(address)).netloc.rpartition("@")[2] or "no http(s) address"


def _findings(trial: Trial, context: RuleContext) -> list[Finding]:
    """Return a finding per class of error, the most frequent first, or else a wrong judgment."""
    calls = 1 + len(trial.more)
    by_kind: dict[str, list[ScoringError]] = {}
    for call in trial.failed:
        if call.error is not None:
            # As for reward records, except that no reward function can have raised.
            kind = refine_kind(call.error.kind, call.error.message)
            by_kind.setdefault("client" if kind == "other" else kind, []).append(call.error)
    by_frequency = sorted(by_kind.items(), key=lambda item: -len(item[1]))
    findings = [
        _finding(kind, errors[0].message, len(errors) / calls, context)
        for kind, errors in by_frequency
    ]
    return findings or _misjudged(trial)


def _finding(kind: str, message: str, share: float, context: RuleContext) -> Finding:
    finding_kind = replace(FAILURES[kind], source="one call with the run's own settings")
    # The advice to run this test does not help here.
    fixes = [
        fix
        for fix in fixes_of(kind, Case(context), share)
        if not any("judge-test" in str(change.after) for change in fix.changes)
    ]
    return finding_kind.finding(
        Case(context),
        Evidence(message, values={"kind": kind, "share": share}),
        severity=Severity.CRITICAL if share == 1 else Severity.WARNING,
        fixes=fixes,
        detail="" if share == 1 else f"{percent(share)} of the calls failed with this error.",
    )


def _misjudged(trial: Trial) -> list[Finding]:
    """Check that a right answer is scored above a wrong one, in every call and order."""
    margins = trial.margins
    if not margins.wrong:
        return []
    right, *_, wrong = trial.first.scores or (0.0, 0.0)
    if not any(margins.all):
        kind = "constant"
    elif all(margin < 0 for margin in margins.all):
        kind = "inverted"
    elif margins.follows_order:
        kind = "order"
    else:
        kind = "unstable"
    finding = KINDS[f"judge_parse_failure.{kind}"].finding(
        Case(),
        Evidence(f"the first call: right {right:.2f}, wrong {wrong:.2f}"),
        right=f"{right:.2f}",
        wrong=f"{wrong:.2f}",
        share=percent(margins.wrong),
        calls=len(margins.all),
    )
    return [finding]


def _advice(context: RuleContext, trial: Trial) -> Advice | None:
    calls, latency = context.rollouts_per_step, trial.p50
    limit = integer(context.get("judge.max_concurrent"))
    if calls is None or latency is None or limit is None:
        return None
    served = allowed(trial.at_once, trial.refused) if trial.refused else None
    # A sufficient limit does not change, unless the server refuses calls within it.
    wanted = max(limit, in_flight(calls, latency, SLOW_S))
    recommended = wanted if served is None else min(wanted, served)
    seconds = pace(calls, recommended, latency)
    return Advice(calls, latency, limit, recommended, seconds, served)
