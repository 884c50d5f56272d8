"""Smoothing, beside the loop that TensorBoard runs."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.run.history.columns import Column
from grubrics_tui.drawing.prepare import Smoothed, ema
from grubrics_tui.drawing.view import SMOOTHING

VALUES = st.lists(st.one_of(st.just(math.nan), st.floats(-1e6, 1e6)), max_size=120)
WEIGHTS = st.sampled_from(SMOOTHING[1:])


def tensorboard(values: list[float], weight: float) -> list[float]:
    """``resmoothDataset`` of vz_line_chart2, line by line."""
    last, count, smoothed = 0.0, 0, []
    for value in values:
        if not math.isfinite(value):
            smoothed.append(value)
            continue
        last = last * weight + (1 - weight) * value
        count += 1
        smoothed.append(last / (1 - weight**count))
    return smoothed


@given(VALUES, WEIGHTS)
def test_smoothing_is_that_of_tensorboard(values: list[float], weight: float) -> None:
    expected = tensorboard(values, weight)
    assert ema(np.array(values, float), weight).tolist() == pytest.approx(
        expected, rel=1e-9, abs=1e-6, nan_ok=True
    )


def test_the_first_value_is_not_drawn_to_zero() -> None:
    assert ema(np.array([5.0, 5.0, 5.0]), 0.99).tolist() == pytest.approx([5.0] * 3)


@given(st.lists(VALUES, max_size=6), WEIGHTS)
def test_going_on_from_step_to_step_gives_the_same_as_starting_anew(
    pieces: list[list[float]], weight: float
) -> None:
    column = Column()
    smoothed = Smoothed(column, weight)
    for piece in pieces:
        for value in piece:
            column.set(len(column), value)
        assert smoothed.values() == pytest.approx(
            ema(column.values, weight), rel=1e-9, abs=1e-6, nan_ok=True
        )


def test_a_step_that_was_redone_starts_the_average_anew() -> None:
    column = Column()
    smoothed = Smoothed(column, 0.6)
    for step in (1, 2, 3):
        column.set(step, 1.0)
    smoothed.values()
    column.set(2, 100.0)
    assert smoothed.values().tolist() == ema(column.values, 0.6).tolist()
