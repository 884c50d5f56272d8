"""Judge beside gold."""

from __future__ import annotations

from engine.history.agreement import Agreement, agreement, out_of_order


def test_pairs_are_counted_as_gold_has_them_tied_or_reversed() -> None:
    assert agreement([0.9, 0.5, 0.5, 0.7], [1.0, 0.6, 0.4, 0.0]) == Agreement(3, 1, 2)


def test_the_answers_on_the_wrong_side_of_another_are_named() -> None:
    assert out_of_order([0.9, 0.5, 0.5, 0.7], [1.0, 0.6, 0.4, 0.0]) == {1, 2, 3}


def test_scores_that_are_missing_or_equal_in_gold_say_nothing() -> None:
    assert agreement([0.1, None, 0.3], [0.5, 1.0, 0.5]) is None
    assert agreement((), ()) is None
