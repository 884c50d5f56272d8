"""Many points on few columns of dots: nothing is lost and nothing is invented."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from engine.base.ticks import Range
from grubrics_tui.drawing.plot import braille, dots, gather, mean_of, means

VALUES = st.lists(st.one_of(st.just(float("nan")), st.floats(-5, 5)), min_size=1, max_size=200)


@given(VALUES, st.integers(2, 60))
def test_every_column_keeps_its_lowest_and_highest_value(values: list[float], width: int) -> None:
    x, y = np.arange(len(values), dtype=float), np.array(values)
    columns = gather(x, y, Range(0, max(1, len(values) - 1)), width)
    if np.isfinite(y).any():
        assert np.nanmin(columns.low) == np.nanmin(y)
        assert np.nanmax(columns.high) == np.nanmax(y)
    else:
        assert np.isnan(columns.low).all()


@given(VALUES)
def test_dots_stand_only_between_the_lowest_and_the_highest_value(values: list[float]) -> None:
    x, y = np.arange(len(values), dtype=float), np.array(values)
    columns = gather(x, y, Range(0, max(1, len(values) - 1)), 40)
    low, high = dots(columns, Range(-5, 5), 40, 40)
    drawn = low <= high
    if np.isfinite(y).any():
        rows = np.rint((y[np.isfinite(y)] + 5) / 10 * 39)
        assert low[drawn].min() >= rows.min() and high[drawn].max() <= rows.max()
    else:
        assert not drawn.any()


def test_a_gap_between_two_columns_is_not_bridged() -> None:
    x = np.array([0.0, 1.0, 2.0, 3.0, 4.0])
    low, high = dots(
        gather(x, np.array([1.0, 1.0, np.nan, 1.0, 1.0]), Range(0, 4), 21), Range(0, 2), 21, 8
    )
    drawn = (low <= high).tolist()
    assert drawn == [True] * 6 + [False] * 9 + [True] * 6


def test_a_line_has_no_holes() -> None:
    x = np.array([0.0, 10.0, 11.0, 30.0])
    low, high = dots(
        gather(x, np.array([0.0, 9.0, 1.0, 5.0]), Range(0, 30), 40), Range(0, 9), 40, 30
    )
    assert (low <= high).all()
    assert (np.maximum(low[1:], low[:-1]) <= np.minimum(high[1:], high[:-1]) + 1).all()


def test_the_dots_of_a_character() -> None:
    assert braille(np.array([0, 3]), np.array([3, 3]), 1).tolist() == [[0x47 | 0x08]]


def test_means_follow_the_line_between_sparse_points_and_stop_at_gaps() -> None:
    x = np.array([0.0, 4.0, 8.0, 12.0])
    found = means(x, np.array([0.0, 4.0, np.nan, 2.0]), Range(0, 12), 13)
    assert found[:5].tolist() == [0.0, 1.0, 2.0, 3.0, 4.0]
    assert np.isnan(found[5:12]).all()
    assert found[12] == 2.0


def test_a_stretch_without_points_has_no_mean() -> None:
    assert np.isnan(mean_of(np.empty(0), np.array([0]), np.array([0]))).tolist() == [True]
