"""Exact match and F1 as SQuAD's script computes them."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.tasks.reading import compute_score, exact_match, normalize, token_f1

WORDS = st.sampled_from(
    ["river", "Marn", "the", "A", "an", "1612", "river.", "théâtre", "(x)", "-"]
)
ANSWERS = st.lists(WORDS, max_size=6).map(" ".join)


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("The  River\tMarn!", "river marn"),
        ("a bridge, an arch and the tower", "bridge arch and tower"),
        ("U.S.", "us"),
        ("theatre another", "theatre another"),
        ("the", ""),
    ],
)
def test_case_punctuation_articles_and_white_space_make_no_difference(
    text: str, plain: str
) -> None:
    assert normalize(text) == plain


@given(st.text(max_size=40))
def test_a_normalized_text_stays_as_it_is_but_for_articles(text: str) -> None:
    plain = normalize(text)
    assert plain == " ".join(plain.split())
    assert not {"a", "an", "the"} & {*plain.split()}


@pytest.mark.parametrize(
    ("answer", "truth", "f1"),
    [
        ("old stone bridge", "the old bridge", 0.8),
        ("bridge bridge", "bridge", 2 / 3),
        ("river", "bridge", 0.0),
        ("bridge old", "old bridge", 1.0),
        ("the", "an", 1.0),
        ("the", "bridge", 0.0),
    ],
)
def test_f1_counts_shared_words(answer: str, truth: str, f1: float) -> None:
    assert token_f1(answer, truth) == pytest.approx(f1)


@given(ANSWERS, ANSWERS)
def test_f1_is_symmetric_from_0_to_1_and_1_only_for_the_same_words(a: str, b: str) -> None:
    f1 = token_f1(a, b)
    assert f1 == token_f1(b, a)
    assert 0 <= f1 <= 1
    assert (f1 == 1) == (Counter(normalize(a).split()) == Counter(normalize(b).split()))


@given(ANSWERS, ANSWERS)
def test_an_exact_match_has_the_f1_of_1(a: str, b: str) -> None:
    assert exact_match(a, b) == float(normalize(a) == normalize(b))
    assert exact_match(a, b) <= token_f1(a, b)


def test_the_best_accepted_answer_counts() -> None:
    extra = {"accepted": json.dumps(["the old bridge", "bridge"])}
    assert compute_score("", "<answer>Bridge</answer>", "the old bridge", extra) == {
        "score": 1.0,
        "exact_match": 1.0,
        "f1": 1.0,
        "marked": 1.0,
    }


def test_partial_credit_is_a_share_of_f1() -> None:
    answer = "<answer>old stone bridge</answer>"
    assert compute_score("", answer, "the old bridge")["score"] == 0
    scored = compute_score("", answer, "the old bridge", partial_credit=0.5)
    assert (scored["score"], scored["f1"]) == pytest.approx((0.4, 0.8))


@pytest.mark.parametrize("response", ["", "   \n", "<think>It is the bridge."])
def test_a_response_without_an_answer_scores_0_with_the_same_names(response: str) -> None:
    scored = compute_score("", response, "the")
    assert scored.keys() == compute_score("", "bridge", "the").keys()
    assert not any(scored.values())


@given(st.text(alphabet="<>/answer boxed{}\\#: the.\n", max_size=100))
def test_no_response_raises(response: str) -> None:
    scored = compute_score("", response, "the old bridge", partial_credit=1.0)
    assert 0 <= scored["score"] == scored["f1"] <= 1
