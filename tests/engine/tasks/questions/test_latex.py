"""Expressions in LaTeX: equal by their spelling, and by their value with math-verify."""

from __future__ import annotations

import threading

import pytest

from engine.tasks import questions
from engine.tasks.questions import are_equal, normalize_latex

SAME_VALUE = [
    ("1+x", "x+1"),
    (r"\frac{1}{\sqrt{2}}", r"\frac{\sqrt{2}}{2}"),
    (r"\{3, 1, 2\}", r"\{1, 2, 3\}"),
    (r"\sin^2 x + \cos^2 x", "1"),
]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (r"\dfrac12", r"\frac{1}{2}"),
        (r"x ^ {2}", "x^2"),
        (r"\left( 1, 2 \right)", "(1,2)"),
        (r"30^\circ", "30"),
        (r"5\text{ cm}", "5cm"),
    ],
)
def test_spellings_of_one_expression_are_equal(one: str, other: str) -> None:
    assert normalize_latex(one) == normalize_latex(other)


@pytest.mark.parametrize(("answer", "truth"), SAME_VALUE)
def test_expressions_of_one_value_are_equal(answer: str, truth: str) -> None:
    assert are_equal(answer, truth, 1e-6)


@pytest.mark.parametrize(("answer", "truth"), SAME_VALUE)
def test_without_math_verify_only_spellings_and_numbers_are(
    answer: str, truth: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(questions, "has_math_verify", lambda: False)
    assert not are_equal(answer, truth, 1e-6)
    assert are_equal(r"\dfrac{1}{2}", "0.5", 1e-6)


@pytest.mark.parametrize("answer", ["x", r"\sqrt{3}", "", "{", r"\frac{1}{", "2", r"\sqrt{2}, 2"])
def test_other_expressions_are_not(answer: str) -> None:
    assert not are_equal(answer, r"\sqrt{2}", 1e-6)


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "answer", ["9^{9^{9}}", "9^9^9^9", "99999!", "9!!!!", "10^{99999999}", "{" * 5000]
)
def test_an_answer_whose_value_takes_for_ever_is_wrong_at_once(answer: str) -> None:
    assert not are_equal(answer, r"\sqrt{2}", 1e-6)


def test_threads_compare_too() -> None:
    found: list[bool] = []
    thread = threading.Thread(target=lambda: found.append(are_equal("1+x", "x+1", 1e-6)))
    thread.start()
    thread.join()
    assert found == [True]
