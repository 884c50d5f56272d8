"""Score a workflow by its answer, under the contract of verl's ``compute_score``.

An answer has one of five tiers: right, nearly right, partly right, an attempt, wrong. To get it, a
model behind OpenAI's interface or a calculator does what the operators of the workflow say.
"""

from __future__ import annotations

import ast
import asyncio
import json
import operator as arithmetic
import os
import re
import string
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Any, Protocol

from engine.tasks.code.sandbox import Limits, run_tests
from engine.tasks.code.score import find_program
from engine.tasks.questions import are_equal, find_final_answer, find_last_number, parse_number
from engine.tasks.rubrics import without_thoughts
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
    tests = extra.get("tests") or ""
    executor: Executor = Calculator()
    if executor_url:
        executor = ModelExecutor(executor_url, executor_model, call_s)
    calls = 0
    operators = Operators(executor, tests)

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
    rules = SCHEMES[scheme]
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


_EXPRESSION = re.compile(r"\(*-?\d[\d\s.+*/()-]{0,198}")
_SIGNS: dict[type[ast.operator], Callable[[Fraction, Fraction], Fraction]] = {
    ast.Add: arithmetic.add,
    ast.Sub: arithmetic.sub,
    ast.Mult: arithmetic.mul,
    ast.Div: arithmetic.truediv,
}


class Executor(Protocol):
    """Does what an operator says. What it raises is no fault of the workflow."""

    async def run(self, operator: Operator, arguments: dict[str, str]) -> str: ...


@dataclass(frozen=True)
class Calculator:
    """Works without a network: computes the last arithmetic of its arguments.

    It reviews by computing itself, and writes no programs. For tests and for tiny models.
    """

    async def run(self, operator: Operator, arguments: dict[str, str]) -> str:
        problem = next(iter(arguments.values()))
        result = compute_last(problem)
        if operator.name == "review":
            return "ok" if result == arguments["solution"].strip() else "wrong"
        return result or "unknown"


@dataclass(frozen=True)
class ModelExecutor:
    """Asks a model at ``base_url``. The key is in the variable ``OPENAI_API_KEY``."""

    base_url: str
    model: str
    call_s: float

    async def run(self, operator: Operator, arguments: dict[str, str]) -> str:
        text = "\n\n".join(f"{name}:\n{value}" for name, value in arguments.items())
        answer = await _make_client(self.base_url, self.call_s).chat.completions.create(
            model=self.model,
            temperature=0,
            max_tokens=1024,
            messages=[
                {"role": "system", "content": operator.instruction or ""},
                {"role": "user", "content": text},
            ],
        )
        return answer.choices[0].message.content or ""


@cache
def _make_client(base_url: str, call_s: float) -> Any:
    from openai import AsyncOpenAI

    key = os.environ.get("OPENAI_API_KEY", "none")
    return AsyncOpenAI(base_url=base_url, api_key=key, timeout=call_s)


@dataclass(frozen=True)
class Operators:
    """Calls operators: those that need a model at the executor, the others here."""

    executor: Executor
    tests: str

    async def ask(self, operator: Operator, arguments: dict[str, Any]) -> str:
        if operator.name == "sc_ensemble":
            solutions = arguments["solutions"]
            if not isinstance(solutions, list) or not solutions:
                raise WorkflowError("sc_ensemble: solutions is no list with items")
            return str(Counter(map(str, solutions)).most_common(1)[0][0])
        for name, value in arguments.items():
            if not isinstance(value, str):
                raise WorkflowError(f"{operator.name}: {name} is no text")
        if operator.name == "test":
            rate = await pass_rate(arguments["solution"], self.tests)
            return "passed" if rate == 1 else "failed"
        return await self.executor.run(operator, arguments)


async def pass_rate(answer: str, tests: str) -> float:
    """The share of tests that the program in an answer passes; 0 without tests."""
    if not tests:
        return 0.0
    parsed = json.loads(tests)
    program, _ = find_program(answer)
    outcomes = await asyncio.to_thread(run_tests, program, parsed, Limits())
    return outcomes.tests.count("passed") / len(parsed)


def compute_last(text: str) -> str | None:
    """The value of the last arithmetic expression in a text, such as ``-2 + 3 * (4 - 1)``."""
    for found in reversed(_EXPRESSION.findall(text[-2000:])):
        try:
            value = _compute(ast.parse(found.strip().rstrip(".+*/(-"), mode="eval").body)
        except (SyntaxError, ValueError, ZeroDivisionError, OverflowError, RecursionError):
            continue
        return str(value.numerator) if value.denominator == 1 else f"{float(value):.6g}"
    return None


def _compute(node: ast.expr) -> Fraction:
    match node:
        case ast.Constant(value=int() | float() as value):
            return Fraction(str(value))
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_compute(operand)
        case ast.BinOp(left=left, op=sign, right=right) if type(sign) in _SIGNS:
            return _SIGNS[type(sign)](_compute(left), _compute(right))
    raise ValueError(f"{type(node).__name__} is no arithmetic")
