"""Check for config values that are allowed but prevent learning or break the model.

The limits are far outside of what is used for training.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from engine.base.jsonl import number
from engine.checks.check import Check, Subject, summary, warn
from engine.checks.complete_change import as_overrides
from engine.config.compose import TEMPERATURE_SCHEDULE
from engine.config.frozen import in_file
from engine.config.load import Config
from engine.config.schedule import TEMPERATURE, find_schedule
from engine.run import fixes
from engine.run.finding import Evidence, Finding, Fix
from engine.run.finding_kind import Case
from engine.run.finding_kind_file import FindingKinds
from engine.run.kinds import GRPO
from engine.run.rule_context import RuleContext

ID = "values"
_HIGHEST_RATE = 1e-2
_SHORTEST = 16
_COLDEST = 0.05


def _usual(
    case: Case,
    key: str | None,
    value: float,
    title: str,
    least: float = 0.0,
    most: float = math.inf,
) -> Fix:
    key = key and fixes.key_in(case, key)
    return fixes.usual_value(case.context, key, value, lambda usual: least <= usual <= most, title)


def _usual_rate(case: Case, title: str) -> Fix:
    kind = case.context.kind or GRPO
    key, usual = kind.learning_rate_key, kind.highest_usual_learning_rate
    return _usual(case, key, usual, title, least=1e-12, most=_HIGHEST_RATE)


def _usual_temperature(case: Case, title: str) -> Fix:
    return _usual(case, _coldest(case.context)[0], 1.0, title, least=0.5, most=1.5)


KINDS = FindingKinds(
    __file__, usual=_usual, usual_rate=_usual_rate, usual_temperature=_usual_temperature
)
_NO_GROUP = "reward_zero_or_flat.no_group"


def check(subject: Subject) -> Check:
    """Apply the doctor's rules on values, each with its first fix as the fix."""
    config = subject.config
    context = RuleContext(config.values, config.kind, in_file=in_file(config))
    warnings = []
    # Of one rollout per prompt, the check batch says what to do.
    found = [each for each in value_findings(context) if each.id != _NO_GROUP]
    for finding in found:
        changes = [change for fix in finding.fixes[:1] for change in fix.changes]
        message = f"{finding.title}: {finding.cause.removesuffix('.')}"
        warnings.append(warn(ID, message, " ".join(as_overrides(changes)) or None))
    return summary(ID, [*warnings, *_repeated(config)], "no value known to break training")


def _repeated(config: Config) -> Iterator[Check]:
    """Several greedy answers to a validation prompt are one answer at several times the cost."""
    key = "actor_rollout_ref.rollout.val_kwargs"
    count, sampled = config.get(f"{key}.n"), config.get(f"{key}.do_sample")
    temperature = config.get(f"{key}.temperature")
    if config.kind == GRPO and (count or 1) > 1 and (not sampled or temperature == 0):
        message = (
            f"{key}.n={count} with greedy decoding (do_sample={str(bool(sampled)).lower()}, "
            f"temperature={temperature}): the {count} answers to a prompt are equal"
        )
        yield warn(ID, message, f"{key}.n=1")


def value_findings(context: RuleContext) -> list[Finding]:
    """Find values that prevent learning. None are found if the config is unknown."""
    findings = []
    case = Case(context, 1)
    key = context.kind.learning_rate_key if context.kind else None
    rate = number(context.get(key))
    if key and rate is not None and rate > _HIGHEST_RATE:
        finding_kind, evidence = KINDS["kl_or_grad_blowup.rate"], _evidence(key, rate)
        findings.append(finding_kind.finding(case, evidence, key=key, rate=f"{rate:g}"))
    return findings + (list(_grpo_findings(context, case)) if context.kind == GRPO else [])


def _grpo_findings(context: RuleContext, case: Case) -> Iterator[Finding]:
    key, length = fixes.RESPONSE, context.get(fixes.RESPONSE)
    has_own_reward = context.get("reward.custom_reward_function.path")
    if not has_own_reward and isinstance(length, int) and length < _SHORTEST:
        yield KINDS["reward_zero_or_flat.cap_too_short"].finding(
            case, _evidence(key, length), key=key, length=length
        )
    key, temperature = _coldest(context)
    if isinstance(temperature, int | float) and temperature <= _COLDEST:
        evidence = _evidence(key, temperature)
        yield KINDS["collapse_entropy_or_length.temperature"].finding(
            case, evidence, key=key, temperature=f"{temperature:g}"
        )
    key = fixes.ROLLOUTS
    if context.get(key) == 1 and context.get("algorithm.adv_estimator") == "grpo":
        yield KINDS[_NO_GROUP].finding(case, _evidence(key, 1), key=key)


def _coldest(context: RuleContext) -> tuple[str, Any]:
    """The key of the lowest temperature at which the run samples, and its value."""
    schedule = find_schedule(context.get, TEMPERATURE)
    if schedule is None:
        return fixes.TEMPERATURE, context.get(fixes.TEMPERATURE)
    name = "final" if schedule.final <= schedule.initial else "initial"
    return f"{TEMPERATURE_SCHEDULE}.{name}", getattr(schedule, name)


def _evidence(key: str, value: float | str) -> Evidence:
    return Evidence(f"{key}={value}", values={key: value})
