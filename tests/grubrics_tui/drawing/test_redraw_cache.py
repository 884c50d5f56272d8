"""A picture is kept only where drawing it again would give the same one."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.base.ticks import Range
from engine.run.history.plot import Band, Line, Marks, Plot
from grubrics_tui.drawing.plot import framed, render, y_range
from grubrics_tui.drawing.redraw_cache import RedrawCheck, can_be_reused
from grubrics_tui.drawing.view import View

WIDTH, HEIGHT = 40, 9
VIEW = View()


def plot_of(y: np.ndarray, spread: np.ndarray) -> Plot:
    x = np.arange(1.0, y.size + 1)
    return Plot((Line(x, y, bands=(Band("spread", y - spread, y + spread),)),))


def kept(plot: Plot, view: View = VIEW) -> RedrawCheck:
    y = y_range(plot, view)
    frame = framed(plot, view, WIDTH, HEIGHT, y=y)[1]
    assert frame is not None
    return RedrawCheck(plot, view, frame, y_follows=True)


def rows(plot: Plot, view: View = VIEW) -> object:
    return render(plot, view, WIDTH, HEIGHT, y=y_range(plot, view))


def noise(size: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=size)


@given(
    st.integers(1, 3000),
    st.integers(1, 3),
    st.integers(0, 2**32 - 1),
    st.sampled_from([0.0, 0.01, 1.0]),
    st.booleans(),
)
def test_what_is_kept_is_what_would_be_drawn(
    size: int, more: int, seed: int, wild: float, with_gaps: bool
) -> None:
    y, spread = wild * noise(size + more, seed), np.abs(noise(size + more, seed + 1)) / 4
    if with_gaps:
        y[noise(size + more, seed + 2) > 2] = np.nan
    before, after = plot_of(y[:size], spread[:size]), plot_of(y, spread)
    if not np.isnan(y[:size]).all() and kept(before).holds(after):
        assert rows(after) == rows(before)


def test_most_steps_of_a_long_run_change_no_dot() -> None:
    y = noise(20_000, 1)
    plots = [plot_of(y[:size], np.full(size, 0.1)) for size in range(19_900, 19_990)]
    held = [kept(old).holds(new) for old, new in itertools.pairwise(plots)]
    assert sum(held) > 60


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ([9.0], "a value beyond the others"),
        ([np.nan], "a value that is lost"),
        ([0.0] * 300, "steps beyond the last column of dots"),
    ],
)
def test_what_shows_is_drawn(change: list[float], what: str) -> None:
    y = noise(20_000, 2).clip(-1, 1)
    plot = plot_of(y, np.zeros(y.size))
    grown = np.concatenate([y, change])
    assert not kept(plot).holds(plot_of(grown, np.zeros(grown.size))), what


def test_a_new_mark_is_drawn() -> None:
    y = noise(5000, 3)
    plot = replace(plot_of(y, np.zeros(5000)), marks=(Marks(np.array([5.0]), np.array([0.0])),))
    more = replace(plot, marks=(Marks(np.array([5.0, 9.0]), np.zeros(2)),))
    assert kept(plot).holds(plot) and not kept(plot).holds(more)


def test_only_a_view_of_everything_is_kept() -> None:
    zoomed = View(window=Range(1.0, 5.0))
    assert can_be_reused(VIEW) and can_be_reused(View(smoothing=0.9))
    assert not any(map(can_be_reused, (zoomed, View(log_y=True), View(cursor=3.0))))
