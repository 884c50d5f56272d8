"""pass@k and best@k: exact values, and equality with counting all subsets."""

from __future__ import annotations

from itertools import combinations, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.base.intervals import best_of_k, pass_at_k


@pytest.mark.parametrize(("k", "expected"), [(8, 1.0), (4, 0.5), (1, 0.125)])
def test_one_correct_of_eight(k: int, expected: float) -> None:
    assert pass_at_k(8, 1, k) == expected


@given(st.lists(st.integers(min_value=0, max_value=5), min_size=1, max_size=7), st.data())
def test_best_of_k_is_the_mean_over_all_subsets(scores: list[int], data: st.DataObject) -> None:
    k = data.draw(st.integers(min_value=1, max_value=len(scores)))
    maxima = [max(subset) for subset in combinations(scores, k)]
    assert best_of_k(scores, k) == pytest.approx(sum(maxima) / len(maxima))


@given(st.lists(st.booleans(), min_size=1, max_size=12), st.data())
def test_pass_at_k_is_best_of_k_of_rights_and_wrongs(
    samples: list[bool], data: st.DataObject
) -> None:
    k = data.draw(st.integers(min_value=1, max_value=len(samples)))
    assert pass_at_k(len(samples), sum(samples), k) == pytest.approx(best_of_k(samples, k))


@pytest.mark.row("H25")
@given(st.integers(1, 60), st.data())
def test_pass_at_k_rises_with_k_to_whether_any_sample_is_right(
    samples: int, data: st.DataObject
) -> None:
    correct = data.draw(st.integers(0, samples))
    values = [pass_at_k(samples, correct, k) for k in range(1, samples + 1)]
    assert all(one <= more + 1e-12 for one, more in pairwise(values))
    assert values[0] == pytest.approx(correct / samples)
    assert values[-1] == float(correct > 0)


@pytest.mark.parametrize("k", [0, 5])
def test_k_beyond_the_samples_is_refused(k: int) -> None:
    with pytest.raises(ValueError, match="there are 4"):
        pass_at_k(4, 2, k)


def test_more_correct_than_samples_is_refused() -> None:
    with pytest.raises(ValueError, match="5 correct of 4"):
        pass_at_k(4, 5, 2)
