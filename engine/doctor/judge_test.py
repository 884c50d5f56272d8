"""Does the judge of a run answer, how fast, and if not: which class of error is it?

The call is made with the run's effective provider, model, address and limits, so what fails here
fails in the run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

from engine.base.errors import UsageError
from engine.base.masking import mask_url
from engine.doctor.metrics import MetricContext
from engine.doctor.metrics.run import percent
from engine.doctor.rewards.failures import CLASSES
from engine.doctor.rewards.remedies import remedies
from engine.doctor.rewards.rollout_record import finer
from engine.estimate.judge import SLOW_S, allowed, in_flight, pace
from engine.findings.finding import Change, Evidence, Finding, Remedy, Severity
from engine.judge.credentials import find_credentials
from engine.judge.interface import ScoringError
from engine.judge.providers import get_provider
from engine.judge.settings import JudgeSettings
from engine.judge.trial import Probe, ScoreMargins, Trial, try_judge
from engine.recipe.recipe import Recipe
from engine.recipe.scoring import asks_judge, scorer


@dataclass(frozen=True)
class Advice:
    """What ``judge.max_concurrent`` should be, and why. Seconds are of a step's judging."""

    calls: int
    latency: float
    limit: int
    recommended: int
    seconds: float
    allowed: int | None
    """Calls at once that were served where some were refused; None: none was."""


@dataclass(frozen=True)
class JudgeTest:
    """``endpoint`` is host and port, without path or login; None for the offline judge and where
    credentials are missing.
    ``trial`` is None where no call could be made. ``findings`` are empty when all is well."""

    settings: JudgeSettings
    endpoint: str | None
    trial: Trial | None
    findings: tuple[Finding, ...]
    advice: Advice | None


def run_test(
    recipe: Recipe, env: Mapping[str, str], calls: int, own: Probe | None = None
) -> JudgeTest:
    """One call that is scored, then ``calls`` in flight as in a run.

    ``env`` holds the credentials; ``own`` takes the place of the built-in question. UsageError for
    a recipe that asks no judge.
    """
    if not recipe.kind.has_rollouts:
        raise UsageError(f"{recipe.path}: {recipe.kind.title} does not use a judge")
    if not asks_judge(recipe):
        raise UsageError(f"{recipe.path} asks no judge: {scorer(recipe)}")
    settings = JudgeSettings(**recipe.section("judge"))
    context = MetricContext(recipe.values, recipe.kind)
    try:
        endpoint = _endpoint(settings, env)
    except UsageError as error:
        missing = _finding("no_credentials", str(error), 1.0, context)
        return JudgeTest(settings, None, None, (missing,), None)
    trial = try_judge(settings, env, calls, own)
    advice = _advice(recipe, trial)
    found = tuple(_agreeing(finding, advice) for finding in _findings(trial, context))
    return JudgeTest(settings, endpoint, trial, found, advice)


def _agreeing(finding: Finding, advice: Advice | None) -> Finding:
    """The finding with the advised number of calls in flight, which was measured here: a run's own
    records only allow to estimate it."""
    if advice is None:
        return finding
    remedies = tuple(
        replace(remedy, changes=tuple(_advised(change, advice) for change in remedy.changes))
        for remedy in finding.remedies
    )
    return replace(finding, remedies=remedies)


def _advised(change: Change, advice: Advice) -> Change:
    is_limit = change.key == "judge.max_concurrent"
    return replace(change, after=advice.recommended) if is_limit else change


def _endpoint(settings: JudgeSettings, env: Mapping[str, str]) -> str | None:
    provider = get_provider(settings.provider)
    if not provider.asks_server:
        return None
    address = find_credentials(settings, env).endpoint or provider.default_base_url or ""
    # Of what is no address at all nothing is shown that a key may hide in.
    return urlsplit(mask_url(address)).netloc.rpartition("@")[2] or "no http(s) address"


def _findings(trial: Trial, context: MetricContext) -> list[Finding]:
    """One for each class of error, the commonest first."""
    errors = [one.error for one in trial.failed if one.error is not None]
    made = 1 + len(trial.more)
    by_kind: dict[str, list[ScoringError]] = {}
    for error in errors:
        by_kind.setdefault(_kind(error), []).append(error)
    ordered = sorted(by_kind.items(), key=lambda one: -len(one[1]))
    found = [_finding(kind, same[0].message, len(same) / made, context) for kind, same in ordered]
    return found or _misjudged(trial)


def _kind(error: ScoringError) -> str:
    """As rewards are told, but there is no reward function here that could have raised."""
    kind = finer(error.kind, error.message)
    return "client" if kind == "other" else kind


def _finding(kind: str, message: str, share: float, context: MetricContext) -> Finding:
    known = CLASSES[kind]
    often = "" if share == 1 else f" {percent(share)} of the calls failed so."
    return Finding(
        known.id,
        Severity.CRITICAL if share == 1 else Severity.WARNING,
        known.title,
        f"{known.cause}{often}",
        (Evidence(message, values={"kind": kind, "share": share}),),
        tuple(one for one in remedies(kind, context, share) if not _is_this_test(one)),
        source="one call with the run's own settings",
    )


def _is_this_test(remedy: Remedy) -> bool:
    return any("judge-test" in str(change.after) for change in remedy.changes)


def _misjudged(trial: Trial) -> list[Finding]:
    """A right answer must be scored above a wrong one, in every call and in any order."""
    margins = trial.margins
    if not margins.wrong:
        return []
    right, *_, wrong = trial.first.scores or (0.0, 0.0)
    evidence = (Evidence(f"the first call: right {right:.2f}, wrong {wrong:.2f}"),)
    if not any(margins.all):
        found = _constant(right, evidence)
    elif all(margin < 0 for margin in margins.all):
        found = _inverted(right, wrong, evidence)
    elif margins.follows_order:
        found = _by_order(evidence)
    else:
        found = _unstable(margins, evidence)
    return [found]


_SOURCE = "calls with the run's own settings"
_STRONGER = Remedy("Use a stronger model as the judge, or ask it for JSON")
_SERVER = Remedy("Look at the server: a stand-in or a cache may give scores without reading")


def _constant(score: float, evidence: tuple[Evidence, ...]) -> Finding:
    return Finding(
        "judge_parse_failure.constant",
        Severity.WARNING,
        f"The judge gives a right and a wrong answer the same score, {score:.2f}",
        "Rewards compare the judge's order of the answers with gold's: a judge that does not "
        "tell them apart leaves no signal.",
        evidence,
        (_STRONGER, _SERVER),
        confidence=0.7,
        source=_SOURCE,
    )


def _inverted(right: float, wrong: float, evidence: tuple[Evidence, ...]) -> Finding:
    return Finding(
        "judge_parse_failure.inverted",
        Severity.CRITICAL,
        f"The judge scores a wrong answer above a right one: {wrong:.2f} and {right:.2f}",
        "Rewards compare the judge's order of the answers with gold's: a judge that turns them "
        "around trains the model to write rubrics that reward wrong answers.",
        evidence,
        (_STRONGER, _SERVER),
        source=_SOURCE,
    )


def _by_order(evidence: tuple[Evidence, ...]) -> Finding:
    return Finding(
        "judge_parse_failure.order",
        Severity.CRITICAL,
        "The judge goes by the order of the answers, not by what they say",
        "The same two answers in the other order get the scores of their places: such scores say "
        "nothing of the answers.",
        evidence,
        (_SERVER, _STRONGER),
        source=_SOURCE,
    )


def _unstable(margins: ScoreMargins, evidence: tuple[Evidence, ...]) -> Finding:
    return Finding(
        "judge_parse_failure.unstable",
        Severity.WARNING,
        f"In {percent(margins.wrong)} of {len(margins.all)} calls the judge does not score the "
        "right answer higher",
        "The same question and answers are scored this way and that: rewards would be noise.",
        evidence,
        (_STRONGER, _SERVER),
        confidence=0.7,
        source=_SOURCE,
    )


def _advice(recipe: Recipe, trial: Trial) -> Advice | None:
    calls, latency = _calls(recipe), trial.p50
    if calls is None or latency is None:
        return None
    limit = int(recipe.get("judge.max_concurrent"))
    served = allowed(trial.at_once, trial.refused) if trial.refused else None
    # A limit that keeps up is left alone, unless the server refuses what it lets through.
    wanted = max(limit, in_flight(calls, latency, SLOW_S))
    recommended = wanted if served is None else min(wanted, served)
    seconds = pace(calls, recommended, latency)
    return Advice(calls, latency, limit, recommended, seconds, served)


def _calls(recipe: Recipe) -> int | None:
    sizes = [recipe.get(key) for key in ("data.train_batch_size", "actor_rollout_ref.rollout.n")]
    return sizes[0] * sizes[1] if all(isinstance(one, int) for one in sizes) else None
