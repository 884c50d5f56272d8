"""Where the final answer stands in a response."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.tasks.questions import FinalAnswer, find_final_answer


@pytest.mark.parametrize(
    ("response", "answer"),
    [
        (r"So \boxed{7}.", "7"),
        (r"First \boxed{7}, then \boxed{\frac{1}{2}}", r"\frac{1}{2}"),
        ("<answer> Paris </answer>", "Paris"),
        ("40 + 32 = 72\n#### 72", "72"),
        ("####\n 72", "72"),
        ("The answer is **B**.", "B"),
        ("Final answer: $1,000.", "1,000"),
        ("Answer = 3", "3"),
    ],
)
def test_a_marked_answer_is_found(response: str, answer: str) -> None:
    assert find_final_answer(response) == FinalAnswer(answer, is_marked=True)


def test_a_box_wins_over_a_sentence() -> None:
    answer = find_final_answer(r"The answer is 5. \boxed{6} is my answer: yes")
    assert answer == FinalAnswer("6", is_marked=True)


def test_without_a_mark_the_last_line_is_the_answer() -> None:
    assert find_final_answer("reasons\n\n 72 \n") == FinalAnswer("72", is_marked=False)


def test_a_box_that_is_never_closed_is_none() -> None:
    assert find_final_answer(r"\boxed{7") == FinalAnswer(r"\boxed{7", is_marked=False)


def test_an_empty_response_has_no_answer() -> None:
    assert find_final_answer(" \n ") is None


@given(st.text(alphabet="\\boxed{} answer:is#<>/\n7", max_size=300))
def test_no_response_raises(response: str) -> None:
    find_final_answer(response)
