"""The score of an answer to a question."""

from __future__ import annotations

import pytest

from engine.tasks.questions import compute_score, find_kind, is_right

HOSTILE = [
    "",
    "0",
    "True",
    "False",
    "zzz",
    "What is 7 * 8?",
    "9" * 100_000,
    r"\boxed{}",
    "null",
    "{" * 1000,
    "NaN",
    "٥٦",
    r"\boxed{56 or 57}",
    "\\boxed{" * 1000,
]


def score(response: str, truth: str, **options: object) -> float:
    return compute_score("q", response, truth, {}, **options)["score"]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("truth", "kind"),
    [
        ("72", "number"),
        ("1,000", "number"),
        (r"\frac{1}{2}", "number"),
        ("B", "choice"),
        ("(C)", "choice"),
        ("Paris", "text"),
        (r"\sqrt{2}", "latex"),
        ("x^2+1", "latex"),
    ],
)
def test_the_kind_of_an_answer_follows_from_the_truth(truth: str, kind: str) -> None:
    assert find_kind(truth) == kind


@pytest.mark.parametrize(
    ("response", "truth"),
    [
        ("40 + 32 = 72\n#### 72", "72"),
        (r"\boxed{0.5}", r"\frac{1}{2}"),
        ("<think>maybe 3</think>It is \\boxed{4}", "4"),
        ("The answer is (B) Paris.", "B"),
        ("b", "b"),
        ("the  PARIS", "The Paris"),
        (r"\boxed{\dfrac{\sqrt{2}}{2}}", r"\frac{\sqrt{2}}{2}"),
    ],
)
def test_right_answers_score_1(response: str, truth: str) -> None:
    assert score(response, truth) == 1


@pytest.mark.parametrize("response", HOSTILE, ids=lambda response: repr(response[:12]))
@pytest.mark.parametrize(("truth", "kind"), [("56", "number"), ("B", "choice"), ("Rome", "text")])
def test_hostile_answers_score_0(response: str, truth: str, kind: str) -> None:
    assert score(response, truth, kind=kind) == 0


def test_several_numbers_in_one_marked_answer_are_no_answer() -> None:
    assert score(r"\boxed{5, 6}", "6") == 0


def test_a_wrong_answer_that_is_marked_can_have_a_score_of_its_own() -> None:
    assert score(r"\boxed{5}", "6", marked_score=0.1) == 0.1
    assert score("5", "6", marked_score=0.1) == 0


def test_whether_the_answer_is_marked_is_a_number_beside_the_score() -> None:
    assert compute_score("q", r"\boxed{6}", "6")["marked"] == 1
    assert compute_score("q", "6", "6")["marked"] == 0


def test_the_row_names_the_kind() -> None:
    assert compute_score("q", "1.0", "1", {"kind": "text"})["score"] == 0
    assert compute_score("q", "1.0", "1", {"kind": "number"})["score"] == 1


def test_an_unknown_kind_is_an_error_and_no_score() -> None:
    with pytest.raises(ValueError, match="kind 'numbr' of an answer is not one of number"):
        is_right("1", "1", "numbr")
