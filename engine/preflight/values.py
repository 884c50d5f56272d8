"""Check for values that are allowed, but with which nothing can be learned.

Only values far outside what anybody trains with: a learning rate above 1e-2, responses shorter
than 16 tokens for rubrics, rollouts that are sampled without chance or alone in their group.
Source: grubrics history; GRPO's advantage needs rollouts that differ.
"""

from __future__ import annotations

from collections.abc import Iterator

from engine.findings import remedy_builders as cures
from engine.findings.finding import Evidence, Finding, Severity
from engine.findings.run_context import MetricContext
from engine.preflight.check import Check, Subject, summary, warn
from engine.preflight.complete_change import as_overrides
from engine.recipe.frozen import in_file
from engine.runs.kinds import GRPO

ID = "values"


def check(subject: Subject) -> Check:
    """The doctor's rules on values, in its words, each with its first remedy as the fix."""
    recipe = subject.recipe
    context = MetricContext(recipe.values, recipe.kind, in_file=in_file(recipe))
    found = [warn(ID, _told(one), _fix(one)) for one in value_findings(context)]
    return summary(ID, found, "no value is known to break training")


def _told(finding: Finding) -> str:
    return f"{finding.title}: {finding.cause.removesuffix('.')}"


def _fix(finding: Finding) -> str | None:
    changes = [change for remedy in finding.remedies[:1] for change in remedy.changes]
    return " ".join(as_overrides(changes)) or None


_HIGHEST_RATE = 1e-2
_SHORTEST = 16
_ENOUGH = 64
_COLDEST = 0.05
_TEMPERATURE = "actor_rollout_ref.rollout.temperature"


def value_findings(context: MetricContext) -> list[Finding]:
    """Empty where the recipe is unknown, and for every recipe that somebody would train with."""
    found = [*_rate(context)]
    if context.kind == GRPO:
        found += [*_short(context), *_cold(context), *_alone(context)]
    return found


def _rate(context: MetricContext) -> Iterator[Finding]:
    kind = context.kind
    if kind is None or (key := kind.learning_rate_key) is None:
        return
    rate = context.get(key)
    if not isinstance(rate, int | float) or rate <= _HIGHEST_RATE:
        return
    yield Finding(
        "kl_or_grad_blowup.rate",
        Severity.WARNING,
        f"Learning rate {rate:g} is too high",
        f"{key} is {rate:g}. Language models are trained with 1e-6 to 1e-4, small ones and "
        "adapters with up to 3e-3: at this rate the first updates destroy the weights.",
        (_value(key, rate),),
        (
            cures.sounder(
                context,
                key,
                kind.highest_usual_learning_rate,
                lambda rate: 0 < rate <= _HIGHEST_RATE,
                "Set the learning rate to {}",
            ),
        ),
        onset_step=1,
        confidence=0.9,
        source="common practice",
    )


def _short(context: MetricContext) -> Iterator[Finding]:
    """Only for rubrics: another reward may well want one token."""
    length = context.get(cures.RESPONSE)
    custom = context.get("reward.custom_reward_function.path")
    if custom or not isinstance(length, int) or length >= _SHORTEST:
        return
    yield Finding(
        "reward_zero_or_flat.cap_too_short",
        Severity.WARNING,
        f"Responses of {length} tokens are too short for a rubric",
        f"{cures.RESPONSE} is {length}: a rubric item alone has about ten tokens, so every "
        "response is cut before the judge finds anything in it.",
        (_value(cures.RESPONSE, length),),
        (
            cures.sounder(
                context, cures.RESPONSE, _ENOUGH, lambda length: length >= _ENOUGH, "Allow {}"
            ),
        ),
        onset_step=1,
        source="a rubric of four items has about 50 tokens",
    )


def _cold(context: MetricContext) -> Iterator[Finding]:
    warmth = context.get(_TEMPERATURE)
    if not isinstance(warmth, int | float) or warmth > _COLDEST:
        return
    yield Finding(
        "collapse_entropy_or_length.temperature",
        Severity.WARNING,
        f"Rollouts are sampled at temperature {warmth:g}",
        f"{_TEMPERATURE} is {warmth:g}: the rollouts of a group become the same text, their "
        "rewards are equal and no advantage is left.",
        (_value(_TEMPERATURE, warmth),),
        (
            cures.sounder(
                context, _TEMPERATURE, 1.0, lambda warmth: 0.5 <= warmth <= 1.5, "Sample at {}"
            ),
        ),
        onset_step=1,
        source="GRPO: advantage = reward - group mean",
    )


def _alone(context: MetricContext) -> Iterator[Finding]:
    rollouts, estimator = context.get(cures.ROLLOUTS), context.get("algorithm.adv_estimator")
    if rollouts != 1 or estimator != "grpo":
        return
    yield Finding(
        "reward_zero_or_flat.no_group",
        Severity.WARNING,
        "GRPO needs at least two rollouts per prompt",
        f"{cures.ROLLOUTS} is 1: there is no other rollout to compare with, and verl uses the "
        "reward as advantage.",
        (_value(cures.ROLLOUTS, 1),),
        (cures.sounder(context, cures.ROLLOUTS, 6, lambda n: n > 1, "Sample {} rollouts"),),
        onset_step=1,
        source="verl 0.9.1: a group of one has mean 0 and std 1",
    )


def _value(key: str, value: float | str) -> Evidence:
    return Evidence(f"{key}={value}", values={key: value})
