"""Zooming and panning: what part of the data a view shows."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from engine.base.ticks import Range
from grubrics_tui.drawing.view import View

ALL = Range(1.0, 101.0)


def test_a_new_view_shows_everything_and_follows() -> None:
    assert View().shown(ALL) == ALL
    assert View().shown(Range(1.0, 102.0)) == Range(1.0, 102.0)


def test_zooming_in_without_a_cursor_keeps_the_newest_steps_and_follows_them() -> None:
    view = View().zoomed(0.5, ALL)
    assert view.shown(ALL) == Range(51.0, 101.0)
    assert view.shown(Range(1.0, 111.0)) == Range(61.0, 111.0)


def test_zooming_keeps_the_cursor_where_it_is_on_the_screen() -> None:
    view = View(cursor=26.0)
    closer = view.zoomed(0.5, ALL)
    assert closer.shown(ALL).share(26.0) == view.shown(ALL).share(26.0)


def test_panning_stops_at_both_ends() -> None:
    view = View(window=Range(40.0, 60.0))
    assert view.panned(-10, ALL).shown(ALL) == Range(1.0, 21.0)
    assert view.panned(10, ALL).tail == 20.0


def test_a_cursor_outside_what_is_shown_takes_the_window_along() -> None:
    view = View(window=Range(40.0, 60.0))
    assert view.pointing(65.0, ALL).window == Range(45.0, 65.0)
    assert view.pointing(30.0, ALL).window == Range(30.0, 50.0)
    assert view.pointing(50.0, ALL).window == view.window


def test_reset_shows_everything_and_keeps_how_lines_are_drawn() -> None:
    view = View(window=Range(2.0, 3.0), cursor=2.0, smoothing=0.9, log_y=True, locked=True)
    assert view.reset() == View(smoothing=0.9, log_y=True)


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("zoom"), st.sampled_from([0.1, 0.5, 2.0, 8.0])),
            st.tuples(st.just("pan"), st.floats(-3, 3)),
            st.tuples(st.just("point"), st.floats(1, 101)),
        ),
        max_size=20,
    )
)
def test_whatever_is_pressed_the_window_stays_inside_the_data(
    moves: list[tuple[str, float]],
) -> None:
    view = View()
    for move, value in moves:
        view = {
            "zoom": lambda v=view, x=value: v.zoomed(x, ALL),
            "pan": lambda v=view, x=value: v.panned(x, ALL),
            "point": lambda v=view, x=value: v.pointing(x, ALL),
        }[move]()
        shown = view.shown(ALL)
        assert ALL.low <= shown.low < shown.high <= ALL.high + 1e-6
        assert (
            view.cursor is None or move != "point" or shown.low <= view.cursor <= shown.high + 1e-6
        )
