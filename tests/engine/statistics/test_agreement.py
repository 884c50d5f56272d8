"""Cohen's kappa."""

from __future__ import annotations

import pytest

from engine.statistics.agreement import cohen_kappa


def test_the_published_example() -> None:
    """50 proposals, two readers: 20 yes-yes, 5 yes-no, 10 no-yes, 15 no-no."""
    labels = ["yes"] * 25 + ["no"] * 25
    decisions = ["yes"] * 20 + ["no"] * 5 + ["yes"] * 10 + ["no"] * 15
    assert cohen_kappa(labels, decisions) == pytest.approx(0.4)


def test_perfect_agreement_is_1() -> None:
    assert cohen_kappa([0, 1, 1], [0, 1, 1]) == 1


def test_one_label_throughout_has_no_kappa() -> None:
    assert cohen_kappa([1, 1], [1, 1]) is None


def test_no_labels_are_refused() -> None:
    with pytest.raises(ValueError, match="at least one"):
        cohen_kappa([], [])
