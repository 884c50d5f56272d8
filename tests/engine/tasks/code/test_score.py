"""Scores of programs, and how records become tests."""

from __future__ import annotations

import json
from typing import Any

import pytest

from engine.tasks.code import CODE
from engine.tasks.code.sandbox import Limits, run_tests
from engine.tasks.code.score import compute_score, find_program
from engine.tasks.task import RecordError

pytestmark = pytest.mark.waits

SOLUTION = "def double(x):\n    return 2 * x"
ASSERTIONS = ["assert double(1) == 2", "assert double(0) == 0", "assert double('a') == 'aa'"]
RECORD = {"question": "Double it.", "solution": SOLUTION, "tests": ASSERTIONS}

CHECK = "def check(candidate):\n    assert candidate(2) == 4\n"
BODY = {"question": 'def double(x):\n    """Twice x."""\n', "solution": "    return 2 * x\n"}


def score(response: str, record: dict[str, Any] | None = None, **options: Any) -> dict[str, float]:
    row = CODE.read(record or RECORD)
    return compute_score("code", response, row.truth, row.extra, **options)


@pytest.mark.parametrize(
    ("response", "program"),
    [
        ("```python\na = 1\n```", "a = 1\n"),
        ("First\n```py\na\n```\nor\n```\nb\n```", "b\n"),
        ("```python\na\n```\n```text\noutput\n```", "a\n"),
        ("```python\ncut off", "cut off"),
        ("a = 1", "a = 1"),
    ],
)
def test_the_last_python_block_is_the_program(response: str, program: str) -> None:
    assert find_program(response)[0] == program


def test_a_program_that_passes_all_tests_scores_1() -> None:
    row = CODE.read(RECORD)
    assert score(
        "<think>```python\n1/0\n```</think>" + CODE.right_answer(row.truth, row.extra)
    ) == {
        "score": 1,
        "passed": 1,
        "errors": 0,
        "timeouts": 0,
        "fenced": 1,
    }


def test_the_numbers_beside_the_score_say_how_far_it_came() -> None:
    program = "def double(x):\n    while x == 1: pass\n    return x + 0"
    scores = score(f"```python\n{program}\n```", test_s=1.0, partial_credit=0.3)
    assert scores["passed"] == scores["errors"] == scores["timeouts"] == pytest.approx(1 / 3)
    assert scores["score"] == pytest.approx(0.1)


@pytest.mark.parametrize(
    "response",
    [
        "",
        "0",
        "zzz",
        "\x00",
        "NaN",
        "```python\n```",
        "9" * 100_000,
        "(" * 1000,
        "def double(x): 0",
    ],
    ids=lambda response: repr(response[:10]),
)
def test_hostile_answers_score_0(response: str) -> None:
    assert score(response)["score"] == 0


@pytest.mark.parametrize(
    ("record", "count"),
    [
        (RECORD, 3),
        ({**RECORD, "tests": "limit = 2\n" + "\n".join(ASSERTIONS)}, 3),
        ({**RECORD, "tests": CHECK, "entry_point": "double"}, 1),
        ({**BODY, "tests": CHECK, "entry_point": "double"}, 1),
        ({**RECORD, "tests": ["assert double(pi) > 6"], "setup": ["from math import pi"]}, 1),
        (
            {
                "question": "Double it.",
                "solution": "print(2 * int(input()))",
                "tests": json.dumps({"inputs": ["2\n", "-1\n"], "outputs": ["4\n", "-2"]}),
            },
            2,
        ),
        ({**RECORD, "solution": "print(4)", "tests": [{"input": "", "output": "4"}]}, 1),
    ],
    ids=["list", "code", "check", "head and body", "setup", "text of JSON", "inputs and outputs"],
)
def test_the_usual_shapes_of_tests_are_read(record: dict[str, Any], count: int) -> None:
    row = CODE.read(record)
    tests = json.loads(row.extra["tests"])
    assert run_tests(row.truth, tests, Limits()).tests == ("passed",) * count


def test_the_prompt_shows_a_test_that_names_the_function() -> None:
    [message] = CODE.read(RECORD).prompt
    assert message["content"] == (
        "Double it.\n\nIt must pass: assert double(1) == 2\n"
        "Answer with a Python program in a ```python block."
    )


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"tests": []}, "0 tests"),
        ({"tests": None}, "neither code nor a list"),
        ({"tests": [7]}, "a test is neither code nor an input"),
        ({"tests": [{"input": "", "output": 7}]}, "must be text"),
        ({"tests": CHECK}, "there is no entry_point"),
        ({"tests": "assert ("}, "the tests are not Python"),
        ({"solution": ""}, "the solution is empty"),
    ],
)
def test_a_record_is_checked(values: dict[str, Any], problem: str) -> None:
    with pytest.raises(RecordError, match=problem):
        CODE.read({**RECORD, **values})
