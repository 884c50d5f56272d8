"""The line chart: what a person can read off it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.base.ticks import Range, around, axis_of, steady, tick_labels, ticks
from engine.run.history.plot import Band, FlagKind, Flags, Line, Marks, Plot
from grubrics_tui.drawing.axis import X_AXES, XAxis, x_labels
from grubrics_tui.drawing.plot import render
from grubrics_tui.drawing.prepare import Smoother
from grubrics_tui.drawing.spans import Row, width_of
from grubrics_tui.drawing.view import View
from tests.grubrics_tui.plain_picture import plain


def line(
    values: Sequence[float | None], ink: str = "series-1", spread: float | None = None
) -> Line:
    """A line whose values stand at 1, 2, ...; None is a gap."""
    y = np.array([math.nan if value is None else value for value in values], float)
    x = np.arange(1.0, len(values) + 1)
    bands = () if spread is None else (Band("spread", y - spread, y + spread),)
    return Line(x, y, ink=ink, bands=bands)


def marks(*points: tuple[float, float]) -> Marks:
    x, y = np.array(points, float).reshape(-1, 2).T
    return Marks(x, y)


RISING = line([step / 10 for step in range(1, 11)])


def draw(
    plot: Plot,
    width: int = 40,
    height: int = 8,
    *,
    view: View | None = None,
    ascii_only: bool = False,
) -> str:
    return plain(render(plot, view or View(), width, height, ascii_only=ascii_only))


def find(text: str, char: str) -> list[int]:
    return [place for place, found in enumerate(text) if found == char]


def inks(rows: list[Row]) -> set[str]:
    return {span.ink for row in rows for span in row}


def test_a_rising_line_in_ascii() -> None:
    assert draw(Plot((RISING,)), 30, 6, ascii_only=True) == "\n".join(
        [
            " 1.0                        **",
            "                    ********",
            " 0.5           *****",
            "       ********",
            "     **",
            "step            5           10",
        ]
    )


def test_a_rising_line_in_braille() -> None:
    assert draw(Plot((RISING,)), 30, 6) == "\n".join(
        [
            " 1.0 ┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈⣀⣠⣤⠶⠛",
            "                   ⢀⣀⣤⡴⠞⠛⠉⠁",
            " 0.5 ┈┈┈┈┈┈┈⢀⣀⣤⡴⠶⠞⠛⠋⠉┈┈┈┈┈┈┈┈┈",
            "       ⣀⣠⣤⠶⠞⠋⠉",
            "     ⠶⠛⠉⠁",
            "step            5           10",
        ]
    )


def test_gaps_flags_and_the_cursor() -> None:
    broken = line([None if 4 <= step <= 7 else 1.0 + step for step in range(1, 11)])
    saved = Flags(FlagKind("saved", "success", "▲", "^"), np.array([3.0, 9.0]))
    plot = Plot((broken,), flags=(saved,))
    assert draw(plot, 30, 8, view=View(cursor=2.0)) == "\n".join(
        [
            "       │                  ⢀⣠⡴⠞",
            "  10 ┈┈│┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈⠶⠛⠋⠁┈┈",
            "       │",
            "   5 ┈┈│┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈",
            "      ⢀●⡴⠶⠛",
            "     ⠞⠋⠁",
            "     ─────▲──×──×─×──×─────▲──",
            "step            5           10",
        ]
    )
    assert draw(plot, 30, 8, view=View(cursor=2.0), ascii_only=True) == "\n".join(
        [
            "        |                   **",
            "  10    |               ****",
            "        |",
            "   5    |",
            "       ****",
            "     ** |",
            "     -----^--x--x-x--x----^---",
            "step            5           10",
        ]
    )


def test_powers_of_ten_are_a_straight_line_on_a_logarithmic_axis() -> None:
    powers = line([10.0**exponent for exponent in range(6)])
    assert draw(Plot((powers,)), 30, 9, view=View(log_y=True), ascii_only=True) == "\n".join(
        [
            "                            **",
            "                          **",
            "10000                  ***",
            "                  *****",
            "  100         ****",
            "          ****",
            "        **",
            "    1 **",
            " step                   5",
        ]
    )


def test_a_window_shows_its_part_and_the_line_goes_on_to_both_edges() -> None:
    rows = draw(Plot((RISING,)), 30, 5, view=View(window=Range(4.5, 5.5)), ascii_only=True)
    columns = {column for row in rows.splitlines()[:-1] for column in find(row, "*")}
    assert columns == set(range(5, 30))


def test_flags_outside_what_is_shown_are_left_out() -> None:
    flags = (Flags(FlagKind("saved", "success", "▲", "^"), np.array([2.0])),)
    view = View(window=Range(5.0, 9.0))
    assert "▲" not in draw(Plot((RISING,), flags=flags), view=view)


def test_several_lines_in_ascii_differ_by_their_characters() -> None:
    plot = Plot((RISING, line([1.0] * 10, "series-2")))
    drawn = draw(plot, ascii_only=True)
    assert "*" in drawn and "+" in drawn


def test_smoothing_keeps_the_raw_line_quietly_behind() -> None:
    noisy = line([0.0, 1.0] * 20)
    plot = Smoother().smooth(Plot((noisy,)), 0.9)
    assert {"series-1", "faint-1"} <= inks(render(plot, View(), 60, 12))


def test_a_growing_line_is_not_squeezed_anew_with_each_step() -> None:
    assert steady(Range(0, 1000)) == steady(Range(0, 1001)) == Range(0, 1024)
    assert steady(Range(1, 30)) == Range(1, 30)


@given(st.floats(0, 1e9), st.floats(1, 1e9), st.sampled_from(X_AXES), st.integers(2, 200))
def test_labels_of_the_x_axis_do_not_touch(
    low: float, size: float, axis: XAxis, width: int
) -> None:
    labels = x_labels(Range(low, low + size), axis, width)
    for (start, text), (after, _) in pairwise(labels):
        assert start + len(text) + 2 <= after


def test_a_missing_value_breaks_the_line_instead_of_being_bridged() -> None:
    gap = line([None if 4 <= step <= 7 else 1.0 for step in range(1, 11)])
    line_row = max(draw(Plot((gap,)), ascii_only=True).splitlines(), key=len)
    assert "*   " in line_row.strip()


def test_one_spike_among_thousands_of_points_is_seen() -> None:
    spike = line([9.0 if step == 1234 else 0.0 for step in range(5000)])
    top = render(Plot((spike,)), View(), 60, 10)[0]
    assert "series-1" in {span.ink for span in top}


def test_the_band_reaches_one_spread_above_and_below_the_line() -> None:
    band = line([0.5, 0.5], spread=0.4)
    rows = render(Plot((band,)), View(), 30, 11, y=Range(0.0, 1.0))
    banded = [i for i, row in enumerate(rows) if any("band-1" in (s.ink, s.paper) for s in row)]
    assert banded == list(range(1, 9))


def test_validation_is_marked_where_it_was_measured() -> None:
    plot = Plot((RISING,), (marks((1, 0.9), (10, 0.2)),))
    rows = draw(plot).splitlines()
    assert sum(row.count("◆") for row in rows) == 2
    assert rows[1].index("◆") < 8


def test_a_single_point_and_equal_values_still_draw() -> None:
    assert "series-1" in inks(render(Plot((line([0.5]),)), View(), 40, 8))
    assert "series-1" in inks(render(Plot((line([2.0, 2.0]),)), View(), 40, 8))


@pytest.mark.parametrize("values", [[], [None, None]])
def test_no_values_draw_nothing(values: list[float | None]) -> None:
    assert draw(Plot((line(values),))).strip() == ""


@given(
    st.lists(st.one_of(st.none(), st.floats(-1e100, 1e100)), max_size=60),
    st.integers(0, 90),
    st.integers(0, 30),
    st.booleans(),
    st.booleans(),
)
def test_any_values_fit_any_size(
    values: list[float | None], width: int, height: int, ascii_only: bool, log: bool
) -> None:
    drawn = line(values, spread=0.1)
    plot = Plot((drawn,), (Marks(drawn.x, drawn.y),))
    view = View(log_y=log, cursor=3.0)
    rows = render(plot, view, width, height, ascii_only=ascii_only)
    assert len(rows) == height
    assert all(width_of(row) in (0, width) for row in rows)


@given(st.floats(-1e6, 1e6), st.floats(1e-6, 1e6), st.integers(2, 6))
def test_ticks_are_inside_the_range_and_distinct(low: float, size: float, count: int) -> None:
    span = Range(low, low + size)
    values = ticks(span, count)
    assert 1 <= len(values) <= count
    slack = size * 1e-6 + abs(low) * 1e-12  # what adding them up in floats may cost
    assert all(span.low - slack <= value <= span.high + slack for value in values)


def test_tick_labels_share_their_decimals() -> None:
    span = around([0.1, 0.62])
    assert tick_labels(span, ticks(span, 4), 4) == ["0.2", "0.4", "0.6"]


@pytest.mark.parametrize(
    ("values", "labels"),
    [
        ([0.0, 19_000.0], ["0", "5k", "10k", "15k"]),
        ([0.0, 2.5e6], ["0", "1M", "2M"]),
        ([0.0, 3e-7], ["0", "1e-7", "2e-7", "3e-7"]),
        ([0.0, 3e20], ["0", "1e20", "2e20", "3e20"]),
    ],
)
def test_large_and_small_values_have_short_labels(values: list[float], labels: list[str]) -> None:
    span = Range(values[0], values[1])
    assert tick_labels(span, ticks(span, 4), 4) == labels


@pytest.mark.parametrize(
    ("longest_s", "labels"),
    [
        (9e-5, ["0", "25 µs", "50 µs", "75 µs"]),
        (0.012, ["0", "5 ms", "10 ms"]),
        (3.0, ["0", "1 s", "2 s", "3 s"]),
    ],
)
def test_labels_of_times_have_one_unit(longest_s: float, labels: list[str]) -> None:
    span = Range(0.0, longest_s)
    assert tick_labels(span, ticks(span, 4), 4, are_seconds=True) == labels


def test_powers_on_a_logarithmic_axis_of_times_have_units() -> None:
    axis = axis_of(Range(-4.0, 0.3), 9, log=True, are_seconds=True)
    assert axis.labels == ["100 µs", "10 ms", "1 s"]
