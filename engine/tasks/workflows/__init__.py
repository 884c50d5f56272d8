"""Answers that are workflows: programs of operators that a model carries out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engine.tasks.code import CODE
from engine.tasks.questions import QUESTIONS
from engine.tasks.task import Column, Example, RecordError, Task, Values
from engine.tasks.workflows.program import DOMAINS, OPERATORS

_NAMES = {"math": "math", "qa": "qa", "code": "code", "numeric": "math", "text": "qa"}
_HINTS = {
    "math": "The answer is a number or an expression.",
    "qa": "The answer is a few words.",
    "code": "The answer is a Python program, which tests check.",
}


def _read(values: Values) -> Example:
    domain = _domain(values)
    if domain == "code":
        read = CODE.read({name: values.get(name) for name in CODE.columns})
        truth, tests = read.truth, read.extra["tests"]
    else:
        question = {"question": values["question"], "answer": values.get("solution")}
        truth, tests = QUESTIONS.read(question).truth, ""
    problem = str(values["question"]).strip()
    extra = {"domain": domain, "tests": tests, "problem": problem}
    return Example(({"role": "user", "content": _prompt(problem, domain)},), truth, extra)


def _domain(values: Values) -> str:
    given: Any = values.get("domain")
    if given is None:
        return "code" if values.get("tests") else "math"
    if given not in _NAMES:
        raise RecordError(f"domain {str(given)[:40]!r} is not one of {', '.join(DOMAINS)}")
    return _NAMES[given]


def _prompt(problem: str, domain: str) -> str:
    listed = "\n".join(
        f"- {operator.name}({', '.join(operator.parameters)}): {operator.summary}"
        for operator in OPERATORS.values()
        if domain in operator.domains
    )
    return (
        "Write a workflow that solves the problem: a Python function workflow(problem) in a "
        "```python block. It calls operators and returns the answer as text. It may use "
        f"assignments, if, for, lists and f-strings.\n\nOperators:\n{listed}\n\n"
        f"Example:\nasync def workflow(problem):\n"
        f'    draft = await custom(input=problem, instruction="Solve it.")\n    return draft\n\n'
        f"{_HINTS[domain]}\n\nProblem:\n{problem}"
    )


def _find_limit(extra: Mapping[str, str]) -> str | None:
    if extra["domain"] == "math":
        return None
    return (
        "without reward_kwargs.executor_url, operators only calculate: they answer no questions "
        "and write no programs"
    )


WORKFLOWS = Task(
    name="workflows",
    summary="workflows of operators that solve math, questions or programming problems",
    scorer="engine.tasks.workflows.score:compute_score",
    columns={
        "question": Column(("question", "problem", "prompt", "text")),
        "solution": Column(
            ("reference_answer", "answer", "ground_truth", "solution", "canonical_solution", "code")
        ),
        "domain": Column(("domain", "problem_type", "answer_type"), is_required=False),
        "tests": Column(("tests", "test_list", "test"), is_required=False),
        "entry_point": Column(("entry_point",), is_required=False),
        "setup": Column(("test_setup_code", "test_imports", "setup"), is_required=False),
    },
    read=_read,
    extra=("domain", "tests", "problem"),
    right_answer=lambda truth, _: (
        f"```python\nasync def workflow(problem):\n    return {truth!r}\n```"
    ),
    find_limit=_find_limit,
)
