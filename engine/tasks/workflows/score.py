"""Score a workflow by its answer, under the contract of verl's ``compute_score``.

An answer has one of five tiers: right, nearly right, partly right, an attempt, wrong.
"""

from __future__ import annotations

import re
import string
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from engine.tasks.code.score import find_program
from engine.tasks.questions import are_equal, find_final_answer, find_last_number, parse_number
from engine.tasks.rubrics import without_thoughts
from engine.tasks.workflows.executor import (
    Calculator,
    Executor,
    ModelExecutor,
    Operators,
    pass_rate,
)
from engine.tasks.workflows.program import (
    Domain,
    Operator,
    WorkflowError,
    parse_workflow,
    run_workflow,
)

CORRECT = 0.7
"""Scores from here on count as correct, in both schemes."""

_CLEAN, _INVALID, _MISMATCH = 0.1, -0.3, -0.5
_SHORTEST_PROGRAM = 10
_LONGER = 5
_PUNCTUATION = str.maketrans("", "", string.punctuation)
_MARK = re.compile(r"\\boxed|<answer>|####|\d")


@dataclass(frozen=True)
class Scheme:
    """The scores of the tiers from wrong to right, and what reaches each of the upper ones, from
    the right one down: relative errors below, pass rates and word overlaps of at least.

    ``is_adjusted``: whether the structure of the workflow moves the tier.
    """

    tiers: tuple[float, ...]
    errors: tuple[float, ...]
    pass_rates: tuple[float, ...]
    overlaps: tuple[float, ...]
    is_adjusted: bool


ADJUSTED = Scheme(
    tiers=(0.0, 0.2, 0.4, 0.7, 1.0),
    errors=(1e-4, 0.05, 0.5),
    pass_rates=(0.99, 0.75, 0.5, 0.2),
    overlaps=(1.0, 0.75, 0.5, 0.2),
    is_adjusted=True,
)
QUARTERS = Scheme(
    tiers=(0.0, 0.25, 0.5, 0.75, 1.0),
    errors=(1e-4, 0.1, 0.3, 0.5),
    pass_rates=(0.99, 0.75, 0.25, 0.0),
    overlaps=(0.9, 0.7, 0.4, 0.2),
    is_adjusted=False,
)
SCHEMES = {"adjusted": ADJUSTED, "quarters": QUARTERS}
_FAILED = {"score": 0.0, "tier": 0.0, "correct": 0.0, "failed": 1.0, "valid": 0.0, "fits": 0.0}


async def compute_score(
    data_source: str,
    solution_str: str,
    ground_truth: str,
    extra_info: Mapping[str, Any] | None = None,
    *,
    scheme: str = "adjusted",
    executor_url: str | None = None,
    executor_model: str = "",
    call_s: float = 30.0,
) -> dict[str, float]:
    """The tier of the workflow's answer, moved by the workflow's structure.

    Beside the score: ``tier`` before that; ``correct``, a score of 0.7 or more; ``failed``, the
    workflow cannot be run, or gave no text: it is not repaired; ``valid``, it has no problem of
    structure; ``fits``, its operators are made for the domain; ``calls`` of operators.

    Without ``executor_url`` the operators only calculate. ``call_s``: seconds for a call of the
    executor. What the executor raises is no score. ValueError for an unknown ``scheme``.
    """
    if scheme not in SCHEMES:
        raise ValueError(f"scheme {scheme!r} is not one of {', '.join(SCHEMES)}")
    extra = extra_info or {}
    domain: Domain = extra["domain"]
    executor: Executor = Calculator()
    if executor_url:
        executor = ModelExecutor(executor_url, executor_model, call_s)
    calls = 0
    operators = Operators(executor, extra.get("tests") or "")

    async def ask(operator: Operator, arguments: dict[str, Any]) -> str:
        nonlocal calls
        calls += 1
        return await operators.ask(operator, arguments)

    answer = ""
    with suppress(WorkflowError):
        workflow = parse_workflow(find_program(without_thoughts(solution_str))[0])
        answer = await run_workflow(workflow, extra["problem"], ask)
    if not answer.strip():
        return {**_FAILED, "calls": float(calls)}
    rules, tests = SCHEMES[scheme], extra.get("tests") or ""
    match domain:
        case "math":
            tier = find_math_tier(answer, ground_truth, rules)
        case "qa":
            tier = find_qa_tier(answer, ground_truth, rules)
        case "code":
            tier = find_code_tier(answer, await pass_rate(answer, tests), rules)
    valid, fits = not workflow.problems, workflow.fits(domain)
    score = adjust(tier, is_valid=valid, fits=fits) if rules.is_adjusted else tier
    return {
        "score": score,
        "tier": tier,
        "correct": float(score >= CORRECT),
        "failed": 0.0,
        "valid": float(valid),
        "fits": float(fits),
        "calls": float(calls),
    }


def find_math_tier(answer: str, truth: str, scheme: Scheme) -> float:
    """By the relative error ``|p - g| / (|g| + 1e-9)`` of the final answer. In ``ADJUSTED``, an
    answer that is farther off but has a number or is marked is an attempt."""
    found = find_final_answer(answer)
    text = found.text if found is not None else ""
    value, wanted = parse_number(text), parse_number(truth)
    if value is None:
        value = find_last_number(text)
    attempt = scheme.tiers[1] if scheme.is_adjusted and _MARK.search(answer) else 0.0
    if wanted is None:
        return 1.0 if text and are_equal(text, truth, 1e-6) else attempt
    if value is None:
        return attempt
    error = float(abs(value - wanted)) / (float(abs(wanted)) + 1e-9)
    tiers = zip(scheme.errors, reversed(scheme.tiers), strict=False)
    return next((tier for limit, tier in tiers if error < limit), attempt)


def find_qa_tier(answer: str, truth: str, scheme: Scheme) -> float:
    """By shared words, without case and punctuation: their F1 in ``ADJUSTED``, otherwise the share
    of the truth's. In ``ADJUSTED``, an answer that holds the truth among more is nearly right."""
    said, wanted = _normalize(answer), _normalize(truth)
    if not wanted or not said:
        return 0.0
    if said == wanted:
        return 1.0
    words, right = set(said.split()), set(wanted.split())
    shared = len(words & right)
    if not scheme.is_adjusted:
        return _tier_of(shared / len(right), scheme.overlaps, scheme)
    f1 = 2 * shared / (len(words) + len(right))
    holds = wanted in said and len(said) > len(wanted) + _LONGER
    if f1 > scheme.overlaps[1] or holds:
        return scheme.tiers[3]
    limits = zip(scheme.overlaps[2:], scheme.tiers[2:0:-1], strict=True)
    return next((tier for limit, tier in limits if f1 > limit), 0.0)


def find_code_tier(program: str, pass_rate: float, scheme: Scheme) -> float:
    """By the share of tests that pass; fewer than 10 characters are no program."""
    if len(program.strip()) < _SHORTEST_PROGRAM or pass_rate <= 0:
        return 0.0
    return _tier_of(pass_rate, scheme.pass_rates, scheme)


def adjust(tier: float, *, is_valid: bool, fits: bool) -> float:
    """The tier after +0.1 for a workflow without problems, or -0.3 for one that is not valid and
    -0.5 for operators that do not fit the domain; the nearest tier, of two the lower one."""
    change = _CLEAN if is_valid and fits else 0.0
    change += 0.0 if is_valid else _INVALID
    change += 0.0 if fits else _MISMATCH
    value = max(0.0, tier + change)
    return min(ADJUSTED.tiers, key=lambda tier: abs(tier - value))


def _tier_of(share: float, limits: Sequence[float], scheme: Scheme) -> float:
    tiers = zip(limits, reversed(scheme.tiers), strict=False)
    return next((tier for limit, tier in tiers if share >= limit), 0.0)


def _normalize(text: str) -> str:
    return " ".join(text.casefold().translate(_PUNCTUATION).split())
