"""Long curves: few points, and none that sticks out is lost."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from engine.base.ticks import Range
from engine.report.run_report.charts import find_pieces, kept_points, one_per_column

VALUES = st.lists(st.floats(-1e6, 1e6) | st.just(float("nan")), min_size=1, max_size=400)


@given(VALUES, st.integers(1, 40))
def test_the_lowest_and_the_highest_value_stay_and_points_are_few(
    listed: list[float], columns: int
) -> None:
    values = np.array(listed)
    steps = np.arange(values.size, dtype=float)
    kept = kept_points(steps, values, Range(0, values.size), columns)
    known = values[np.isfinite(values)]
    assert kept.size <= 2 * columns + 2 and np.all(np.diff(kept) > 0)
    if known.size:
        assert values[kept].min() == known.min() and values[kept].max() == known.max()


@given(VALUES, st.integers(1, 40))
def test_a_step_without_a_number_lies_in_no_piece_and_between_no_two_points(
    listed: list[float], columns: int
) -> None:
    values = np.array(listed)
    steps = np.arange(values.size, dtype=float)
    kept = kept_points(steps, values, Range(0, values.size), columns)
    pieces = find_pieces(kept, values)
    assert all(np.isfinite(values[piece[0] : piece[-1] + 1]).all() for piece in pieces)
    assert sum(piece.size for piece in pieces) == kept.size


def test_a_short_curve_keeps_all_points() -> None:
    steps = np.arange(10.0)
    assert kept_points(steps, steps, Range(0, 9), 5).tolist() == list(range(10))


def test_steps_without_a_number_are_marked_once_per_column() -> None:
    places = one_per_column(np.arange(1.0, 1000.0, 2.0), Range(0, 1000), 10)
    assert places.tolist() == [1.0, *(100.0 * n + 1 for n in range(1, 10))]
