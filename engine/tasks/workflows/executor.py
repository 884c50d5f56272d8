"""What the operators of a workflow do: a model behind OpenAI's interface, or a calculator."""

from __future__ import annotations

import ast
import asyncio
import json
import operator as arithmetic
import os
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Any, Protocol

from engine.tasks.code.sandbox import Limits, run_tests
from engine.tasks.code.score import find_program
from engine.tasks.workflows.program import Operator, WorkflowError

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
