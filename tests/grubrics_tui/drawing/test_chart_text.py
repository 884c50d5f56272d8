"""The words of a chart: its legend and its table."""

from __future__ import annotations

import math

import numpy as np

from engine.base.ticks import Range
from engine.run.history.columns import Column
from engine.run.history.plot import Band, Fact, FlagKind, Flags, Line, Marks, Plot, Values
from grubrics_tui.drawing.legend import Look, legend
from grubrics_tui.drawing.prepare import on_axis
from grubrics_tui.drawing.table import neighbor, table
from grubrics_tui.drawing.view import View
from tests.grubrics_tui.plain_picture import plain

STEPS = np.arange(1.0, 6.0)
SPREAD = Values(STEPS, np.full(5, 0.25), "std")


def clock() -> Column:
    """A step every 20 seconds."""
    times = Column()
    for step in STEPS:
        times.set(step, 1_800_000_000.0 + 20 * step)
    return times


PLOT = Plot(
    (
        Line(
            STEPS,
            np.array([0.5, 0.0, math.nan, -1.0, 2.0]),
            "mean",
            bands=(Band("spread", STEPS, STEPS, (SPREAD,)),),
        ),
    ),
    (Marks(np.array([2.0]), np.array([0.75]), "val"),),
    (Flags(FlagKind("saved", "success", "▲", "^"), np.array([3.0])),),
    (Fact(STEPS, np.array([0.0, 0, 7, 0, 0]), "errors", tone="error"),),
    clock=clock(),
)


def said(view: View, width: int = 200, look: Look | None = None, plot: Plot = PLOT) -> str:
    return plain(legend(on_axis(plot, view.axis), view, width, look))


def test_the_legend_reads_the_newest_values_and_says_where_an_older_one_is_from() -> None:
    assert said(View()) == "━ mean 2  ■ std 0.25  ◆ val 0.75 at 2"


def test_before_the_first_step_the_legend_reads_the_validation_that_is_drawn() -> None:
    nothing = Line(np.array([]), np.array([]), "mean")
    before = Plot((nothing,), (Marks(np.array([0.0]), np.array([-0.025]), "val"),))
    assert said(View(), plot=before) == "━ mean –  ◆ val -0.025"


def test_the_legend_reads_the_values_and_flags_at_the_cursor() -> None:
    assert said(View(cursor=2.0)) == "step 2  ━ mean 0  ■ std 0.25  ◆ val 0.75"
    at_3 = said(View(cursor=3.0))
    assert at_3 == "step 3  ▲ saved  ━ mean –  ■ std 0.25  ◆ val 0.75 at 2  errors 7"


def test_the_legend_reads_elapsed_time() -> None:
    assert said(View(axis="elapsed", cursor=20.0)).startswith("0:20  ━ mean 0")


def test_the_legend_says_what_is_not_as_usual() -> None:
    view = View(log_y=True, smoothing=0.9, locked=True, tail=3.0, band="none")
    tags = said(view, plot=Plot(PLOT.lines))
    assert tags == "━ mean 2  smoothed 0.9  log, 2 ≤ 0 hidden  y locked  last 3 steps"


def test_a_narrow_legend_takes_more_rows_and_cuts_no_entry() -> None:
    assert said(View(), 22) == "━ mean 2  ■ std 0.25\n◆ val 0.75 at 2"


def test_without_color_the_legend_shows_the_characters_that_lines_are_drawn_with() -> None:
    two = Plot((Line(STEPS, STEPS, "a"), Line(STEPS, STEPS, "b", ink="series-2")))
    assert said(View(), look=Look(colorless=True), plot=two) == "* a 5  + b 5"
    assert said(View(), look=Look(colorless=True)).startswith("━ mean")


def test_the_table_shows_the_same_numbers_with_the_newest_step_last() -> None:
    assert plain(table(Plot(PLOT.lines, PLOT.marks), None, 60, 4)) == "\n".join(
        [
            "    step    mean     val     std",
            "       3       –            0.25",
            "       4      -1            0.25",
            "       5       2            0.25",
        ]
    )


def test_the_table_shows_the_steps_around_the_cursor() -> None:
    rows = table(Plot(PLOT.lines, PLOT.marks), 2.0, 60, 4)
    assert [row[0].text.split()[0] for row in rows[1:]] == ["1", "2", "3"]
    assert [span.bold for row in rows for span in row] == [False, False, True, False]


def test_the_table_says_how_many_columns_have_no_room() -> None:
    assert plain(table(Plot(PLOT.lines, PLOT.marks), None, 24, 4)).splitlines()[0].endswith("+2")


def test_a_narrow_table_leaves_out_the_time_before_any_value() -> None:
    clock = Column()
    clock.extend(STEPS, STEPS + 1e9)
    timed = Plot((Line(STEPS, STEPS, "loss"),), clock=clock)
    assert plain(table(timed, None, 25, 3)).splitlines()[0].split() == ["step", "loss"]
    assert plain(table(timed, None, 26, 3)).splitlines()[0].split() == ["step", "time", "loss"]


def test_the_cursor_walks_over_the_rows_of_all_columns() -> None:
    assert neighbor(PLOT, None, -1) == 5.0
    assert neighbor(PLOT, 5.0, -2) == 3.0
    assert neighbor(PLOT, 2.0, -10) == 1.0


def test_a_flag_far_from_the_cursor_is_not_read_out() -> None:
    assert "saved" not in said(View(cursor=4.0, window=Range(1.0, 5.0)))


def test_a_table_of_a_small_chart_has_a_value_beside_each_step() -> None:
    values = Line(STEPS, STEPS * -0.01234, "loss", write=lambda value: f"{value:.5f}")
    rows = plain(table(Plot((values,), clock=clock()), None, 16, 3)).split("\n")
    assert rows == ["step      loss", "   4  -0.04936", "   5  -0.06170"]
