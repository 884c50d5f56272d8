"""Workflows: what they may do, what they come to, and how they fail."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.tasks.task import RecordError
from engine.tasks.workflows import WORKFLOWS
from engine.tasks.workflows.score import compute_last, compute_score

MATH = WORKFLOWS.read({"question": "What is 3 * (4 - 1)?", "solution": "9"})
QA = WORKFLOWS.read({"question": "Capital of Italy?", "solution": "Rome", "domain": "qa"})
CODE = WORKFLOWS.read(
    {
        "question": "Double x.",
        "solution": "def double(x):\n    return 2 * x",
        "tests": ["assert double(1) == 2", "assert double(2) == 4"],
    }
)

DRAFT = 'await custom(input=problem, instruction="Solve it.")'


def score(body: str, row: Any = MATH, **options: Any) -> dict[str, float]:
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    return score_text(f"```python\nasync def workflow(problem):\n{lines}```", row, **options)


def score_text(response: str, row: Any = MATH, **options: Any) -> dict[str, float]:
    return asyncio.run(compute_score("w", response, row.truth, row.extra, **options))


@pytest.mark.row("A25")
def test_a_prompt_names_the_operators_and_the_form_of_the_answer_of_its_domain() -> None:
    math, qa, code = (str(row.prompt[0]["content"]) for row in (MATH, QA, CODE))
    assert "- answer_generate(" in math and "The answer is a number or an expression." in math
    assert "- answer_generate(" in qa and "- test(" not in qa and "Capital of Italy?" in qa
    assert "- programmer(" in code and "- test(" in code and "- answer_generate(" not in code
    hints = {text.partition("\n\nProblem:")[0].rpartition("\n")[2] for text in (math, qa, code)}
    assert len(hints) == 3


def test_a_workflow_that_solves_the_problem_scores_1() -> None:
    assert score(f"return {DRAFT}") == {
        "score": 1,
        "tier": 1,
        "correct": 1,
        "failed": 0,
        "valid": 1,
        "fits": 1,
        "calls": 1,
    }


@pytest.mark.parametrize(
    "body",
    [
        "answers = []\nfor turn in range(3):\n    answers.append(answer_generate(problem))\n"
        "return await sc_ensemble(answers)",
        f'draft = {DRAFT}\nnote = await review(problem, draft)\nif note != "ok":\n'
        "    draft = await revise(problem, draft, note)\nreturn draft",
        'parts = ["It is "] + ["9"]\ntext = f"{parts[0]}{parts[1]}"\ntext += "."\nreturn text',
        'if "3" in problem and not problem == "x":\n    return "9"\nreturn "0"',
    ],
    ids=["ensemble", "review and revise", "lists and texts", "conditions"],
)
def test_a_small_part_of_python_is_understood(body: str) -> None:
    assert score(body)["score"] == 1


@pytest.mark.row("A23")
@pytest.mark.parametrize(
    "body",
    [
        "import os\nreturn '9'",
        "return open('/etc/passwd')",
        "return problem.__class__",
        "return (lambda: '9')()",
        "while True: pass",
        "for a in range(9):\n    for b in range(9):\n        for c in range(9):\n            pass",
        "x = [problem]\nfor a in range(10):\n    x = x + x\nreturn '9'",
        "x = problem\nfor a in range(10):\n    for b in range(3):\n        x = x + x\nreturn '9'",
        "x = []\nfor a in range(10):\n    x = [x, x]\nreturn f'{x}'",
        "return f'{0x" + "f" * 5000 + "}'",
        "for a in range(9):\n    for b in range(9):\n        x = custom(problem, '')\nreturn x",
        "return custom(problem)",
        "return custom(problem, problem, input=problem)",
        "return sc_ensemble([])",
        "return review(problem, [])",
        "return answers",
        "return ['9']",
        "x = '9'",
        "return '  '",
        "return " + "not " * 400 + "'9'",
    ],
    ids=lambda body: body[:24],
)
def test_a_workflow_that_fails_scores_0_and_is_not_repaired(body: str) -> None:
    scores = score(body)
    assert (scores["score"], scores["failed"]) == (0, 1)


@pytest.mark.row("A23")
@pytest.mark.parametrize(
    "response",
    ["", "9", "```python\n```", "def workflow(): return '9'", "def f(problem): return '9'",
     "\x00", "x" * 100_000, "return '9'"],
    ids=lambda response: repr(response[:16]),
)  # fmt: skip
def test_what_is_no_workflow_fails(response: str) -> None:
    assert score_text(response)["failed"] == 1


@pytest.mark.row("A23")
def test_a_result_that_is_not_used_costs_a_tier() -> None:
    scores = score(f"{DRAFT}\nreturn '9'")
    assert (scores["valid"], scores["tier"], scores["score"]) == (0, 1, 0.7)


@pytest.mark.row("A24")
def test_an_operator_of_another_domain_costs_more() -> None:
    scores = score("draft = programmer(problem, problem)\nreturn '9'")
    assert (scores["fits"], scores["tier"], scores["score"]) == (0, 1, 0.4)


def test_the_scheme_of_quarters_looks_only_at_the_answer() -> None:
    assert score(f"{DRAFT}\nreturn '9'", scheme="quarters")["score"] == 1
    assert score("return '10'", scheme="quarters")["score"] == 0.5
    with pytest.raises(ValueError, match="scheme 'x' is not one of adjusted, quarters"):
        score("return '9'", scheme="x")


def test_answers_of_questions_are_compared_by_words() -> None:
    assert score("return 'rome.'", QA)["score"] == 1
    assert score(f"return {DRAFT}", QA)["score"] == 0


@pytest.mark.waits
def test_programs_are_tested_by_the_operator_and_for_the_score() -> None:
    wrong, right = "def double(x): return 2", "def double(x): return x + x"
    body = f"draft = {wrong!r}\nif await test(draft) == 'failed':\n    draft = {right!r}\n"
    assert score(f"{body}return draft", CODE)["score"] == 1
    assert score(f"return {wrong!r}", CODE)["tier"] == 0.4


@pytest.mark.waits
@pytest.mark.parametrize("row", [MATH, QA, CODE], ids=["math", "qa", "code"])
def test_the_right_answer_of_a_row_scores_1(row: Any) -> None:
    assert score_text(WORKFLOWS.right_answer(row.truth, row.extra), row)["score"] == 1


def test_an_executor_that_cannot_be_reached_is_no_score() -> None:
    openai = pytest.importorskip("openai")
    with pytest.raises(openai.OpenAIError):
        score(f"return {DRAFT}", executor_url="http://127.0.0.1:1/v1", call_s=0.2)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("What is 3 * (4 - 1)?", "9"),
        ("First 1 + 1, then 2 + 3 =", "5"),
        ("-2 + 3", "1"),
        ("(1 + 2) * 3", "9"),
        ("1 / 4", "0.25"),
        ("5", "5"),
        ("2 ** 99", None),
        ("1 / 0", None),
        ("no numbers", None),
    ],
)
def test_the_calculator_computes_the_last_arithmetic(text: str, value: str | None) -> None:
    assert compute_last(text) == value


@given(st.text(alphabet="0123456789+-*/(). \n", max_size=200))
def test_no_arithmetic_raises(text: str) -> None:
    compute_last(text)


BODIES = st.lists(
    st.sampled_from(
        ["x = problem", "x = []", "x = x + x", "x.append(x)", "x = f'{x}{x}'", "x = x[0]", "x += x",
         "x = custom(x, x)", "if x: return x", "for x in x: x = x", "return x", "del x", "x = -x"]
    ),
    max_size=12,
)  # fmt: skip


@given(BODIES)
def test_no_workflow_raises(lines: list[str]) -> None:
    assert 0 <= score("\n".join([*lines, "return x"]))["score"] <= 1


def test_a_record_is_checked() -> None:
    with pytest.raises(RecordError, match="domain 'chess' is not one of math, qa, code"):
        WORKFLOWS.read({"question": "?", "solution": "1", "domain": "chess"})
    with pytest.raises(RecordError, match="the tests are neither code nor a list"):
        WORKFLOWS.read({"question": "?", "solution": "f", "domain": "code"})
