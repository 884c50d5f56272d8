"""The line chart: what a person can read off it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grubrics_tui.drawing.plot import Line, Marks, Plot, render
from grubrics_tui.drawing.scale import Range, around, tick_labels, ticks
from grubrics_tui.drawing.spans import Row, plain, width_of

RISING = [(step, step / 10) for step in range(1, 11)]


def draw(plot: Plot, width: int = 40, height: int = 8, *, ascii_only: bool = False) -> str:
    return plain(render(plot, width, height, ascii_only=ascii_only))


def inks(rows: list[Row]) -> set[str]:
    return {span.ink for row in rows for span in row}


def test_a_rising_line_in_ascii() -> None:
    assert draw(Plot((Line(RISING, "series-1"),)), 30, 6, ascii_only=True) == "\n".join(
        [
            "1.0                      *****",
            "                   *******",
            "0.5         *********",
            "      ********",
            "    ****",
            "    1                  step 10",
        ]
    )


def test_a_rising_line_in_braille() -> None:
    assert draw(Plot((Line(RISING, "series-1"),)), 30, 6) == "\n".join(
        [
            "1.0 ┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈⣀⣤⡴⠶⠛",
            "                   ⣀⣠⣤⠶⠞⠛⠉",
            "0.5 ┈┈┈┈┈┈┈┈⣀⣠⣤⠶⠶⠛⠛⠉⠁┈┈┈┈┈┈┈┈┈",
            "      ⢀⣀⣤⠶⠞⠛⠉⠁",
            "    ⠶⠛⠋⠉",
            "    1                  step 10",
        ]
    )


def test_a_missing_value_breaks_the_line_instead_of_being_bridged() -> None:
    gap = [(step, None if 4 <= step <= 7 else 1.0) for step in range(1, 11)]
    line_row = max(draw(Plot((Line(gap, "series-1"),)), ascii_only=True).splitlines(), key=len)
    assert "*   " in line_row.strip()


def test_one_spike_among_thousands_of_points_is_seen() -> None:
    points = [(step, 9.0 if step == 1234 else 0.0) for step in range(5000)]
    top = render(Plot((Line(points, "series-1"),)), 60, 10)[0]
    assert "series-1" in {span.ink for span in top}


def test_the_band_reaches_one_spread_above_and_below_the_line() -> None:
    band = Line([(1, 0.5), (10, 0.5)], "series-1", [0.4, 0.4])
    rows = render(Plot((band,), y=Range(0.0, 1.0)), 30, 11)
    banded = [i for i, row in enumerate(rows) if any("band" in (s.ink, s.paper) for s in row)]
    assert banded == list(range(1, 9))


def test_validation_is_marked_where_it_was_measured() -> None:
    plot = Plot((Line(RISING, "series-1"),), (Marks([(1, 0.9), (10, 0.2)], "mark"),))
    rows = draw(plot).splitlines()
    assert sum(row.count("◆") for row in rows) == 2
    assert rows[1].index("◆") < 8


def test_a_single_point_and_equal_values_still_draw() -> None:
    assert "series-1" in inks(render(Plot((Line([(3, 0.5)], "series-1"),)), 40, 8))
    assert "series-1" in inks(render(Plot((Line([(1, 2.0), (9, 2.0)], "series-1"),)), 40, 8))


@pytest.mark.parametrize("points", [[], [(1, None), (2, None)]])
def test_no_values_draw_nothing(points: list[tuple[float, float | None]]) -> None:
    assert draw(Plot((Line(points, "series-1"),))).strip() == ""


@given(
    st.lists(st.one_of(st.none(), st.floats(-1e100, 1e100)), max_size=60),
    st.integers(0, 90),
    st.integers(0, 30),
    st.booleans(),
)
def test_any_values_fit_any_size(
    values: list[float | None], width: int, height: int, ascii_only: bool
) -> None:
    points = list(enumerate(values))
    plot = Plot((Line(points, "series-1", [0.1] * len(points)),), (Marks(points, "mark"),))
    rows = render(plot, width, height, ascii_only=ascii_only)
    assert len(rows) == height
    assert all(width_of(row) in (0, width) for row in rows)


@given(st.floats(-1e6, 1e6), st.floats(1e-6, 1e6), st.integers(2, 6))
def test_ticks_are_inside_the_range_and_told_apart(low: float, size: float, count: int) -> None:
    span = Range(low, low + size)
    values = ticks(span, count)
    assert 1 <= len(values) <= count
    slack = size * 1e-6 + abs(low) * 1e-12  # what adding them up in floats may cost
    assert all(span.low - slack <= value <= span.high + slack for value in values)


def test_tick_labels_share_their_decimals() -> None:
    span = around([0.1, 0.62])
    assert tick_labels(span, ticks(span, 4), 4) == ["0.2", "0.4", "0.6"]
