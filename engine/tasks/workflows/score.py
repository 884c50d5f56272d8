"""Score a workflow by its answer, under the contract of verl's ``compute_score``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engine.rubrics import without_thoughts
from engine.tasks.code.score import find_program
from engine.tasks.workflows.executor import (
    Calculator,
    Executor,
    ModelExecutor,
    Operators,
    pass_rate,
)
from engine.tasks.workflows.operators import Operator
from engine.tasks.workflows.program import WorkflowError, parse_workflow, run_workflow
from engine.tasks.workflows.tiers import (
    CORRECT,
    SCHEMES,
    Domain,
    Scheme,
    adjust,
    find_code_tier,
    find_math_tier,
    find_qa_tier,
)


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

    try:
        workflow = parse_workflow(find_program(without_thoughts(solution_str))[0])
        answer = await run_workflow(workflow, extra["problem"], ask)
    except WorkflowError:
        return _numbers(0.0, 0.0, failed=True, valid=False, fits=False, calls=calls)
    if not answer.strip():
        return _numbers(0.0, 0.0, failed=True, valid=False, fits=False, calls=calls)
    rules = SCHEMES[scheme]
    tier = await find_tier(answer, ground_truth, domain, extra.get("tests") or "", rules)
    valid, fits = not workflow.problems, workflow.fits(domain)
    score = adjust(tier, is_valid=valid, fits=fits) if rules.is_adjusted else tier
    return _numbers(score, tier, failed=False, valid=valid, fits=fits, calls=calls)


async def find_tier(answer: str, truth: str, domain: Domain, tests: str, scheme: Scheme) -> float:
    """The tier of an answer in its domain."""
    match domain:
        case "math":
            return find_math_tier(answer, truth, scheme)
        case "qa":
            return find_qa_tier(answer, truth, scheme)
        case "code":
            return find_code_tier(answer, await pass_rate(answer, tests), scheme)


def _numbers(
    score: float, tier: float, *, failed: bool, valid: bool, fits: bool, calls: int
) -> dict[str, float]:
    return {
        "score": score,
        "tier": tier,
        "correct": float(score >= CORRECT),
        "failed": float(failed),
        "valid": float(valid),
        "fits": float(fits),
        "calls": float(calls),
    }
