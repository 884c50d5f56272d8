"""The tiers of answers, and how the structure of a workflow moves them: all limits."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.tasks.workflows.score import (
    ADJUSTED,
    QUARTERS,
    adjust,
    find_code_tier,
    find_math_tier,
    find_qa_tier,
)

pytestmark = pytest.mark.long

PROGRAM = "print(input())"


@pytest.mark.row("A13")
@pytest.mark.parametrize(
    ("answer", "adjusted", "quarters"),
    [
        ("100.005", 1.0, 1.0),
        ("100.02", 0.7, 0.75),
        ("104.9", 0.7, 0.75),
        ("105.1", 0.4, 0.75),
        ("111", 0.4, 0.5),
        ("149", 0.4, 0.25),
        ("151", 0.2, 0.0),
        (r"\boxed{}", 0.2, 0.0),
        ("no idea", 0.0, 0.0),
        ("", 0.0, 0.0),
    ],
)
def test_math_by_the_relative_error(answer: str, adjusted: float, quarters: float) -> None:
    assert find_math_tier(answer, "100", ADJUSTED) == adjusted
    assert find_math_tier(answer, "100", QUARTERS) == quarters


@pytest.mark.row("A13")
@pytest.mark.parametrize(
    ("answer", "tier"), [(r"\boxed{\dfrac{\pi}{2}}", 1.0), ("3", 0.2), ("none", 0.0)]
)
def test_an_expression_is_equal_or_an_attempt(answer: str, tier: float) -> None:
    assert find_math_tier(answer, r"\frac{\pi}{2}", ADJUSTED) == tier


@pytest.mark.row("A13")
@pytest.mark.parametrize(
    ("rate", "adjusted", "quarters"),
    [
        (1.0, 1.0, 1.0),
        (0.99, 1.0, 1.0),
        (0.98, 0.7, 0.75),
        (0.75, 0.7, 0.75),
        (0.74, 0.4, 0.5),
        (0.5, 0.4, 0.5),
        (0.49, 0.2, 0.5),
        (0.25, 0.2, 0.5),
        (0.2, 0.2, 0.25),
        (0.1, 0.0, 0.25),
        (0.0, 0.0, 0.0),
    ],
)
def test_code_by_the_pass_rate(rate: float, adjusted: float, quarters: float) -> None:
    assert find_code_tier(PROGRAM, rate, ADJUSTED) == adjusted
    assert find_code_tier(PROGRAM, rate, QUARTERS) == quarters


@pytest.mark.row("A13")
def test_a_short_program_is_none() -> None:
    assert find_code_tier("print(1)", 1.0, ADJUSTED) == 0


@pytest.mark.row("A13")
@pytest.mark.parametrize(
    ("answer", "truth", "adjusted", "quarters"),
    [
        ("The Eiffel tower!", "the eiffel tower", 1.0, 1.0),
        ("a b c d", "a b c d e", 0.7, 0.75),
        ("It is Paris, France", "Paris", 0.7, 1.0),
        ("a b", "a b c d", 0.4, 0.5),
        ("a x", "a b", 0.2, 0.5),
        ("a x y z", "a b c d e", 0.2, 0.25),
        ("x", "a", 0.0, 0.0),
        ("", "a", 0.0, 0.0),
        ("a", "?", 0.0, 0.0),
    ],
)
def test_questions_by_shared_words(
    answer: str, truth: str, adjusted: float, quarters: float
) -> None:
    assert find_qa_tier(answer, truth, ADJUSTED) == adjusted
    assert find_qa_tier(answer, truth, QUARTERS) == quarters


@pytest.mark.row("A13")
@pytest.mark.parametrize(
    ("is_valid", "fits", "after"),
    [
        (True, True, (0.0, 0.4, 0.4, 0.7, 1.0)),
        (False, True, (0.0, 0.0, 0.2, 0.4, 0.7)),
        (True, False, (0.0, 0.0, 0.0, 0.2, 0.4)),
        (False, False, (0.0, 0.0, 0.0, 0.0, 0.2)),
    ],
)
def test_the_structure_moves_a_tier_to_another(
    is_valid: bool, fits: bool, after: tuple[float, ...]
) -> None:
    moved = tuple(adjust(tier, is_valid=is_valid, fits=fits) for tier in ADJUSTED.tiers)
    assert moved == after


@given(st.text(max_size=50), st.text(max_size=20))
def test_every_answer_has_a_tier(answer: str, truth: str) -> None:
    for scheme in (ADJUSTED, QUARTERS):
        assert find_math_tier(answer, truth, scheme) in scheme.tiers
        assert find_qa_tier(answer, truth, scheme) in scheme.tiers
