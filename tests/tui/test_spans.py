"""What of a picture has to be drawn again."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from grubrics_tui.drawing.spans import Row, Span, differences

WIDTH = 20
SPANS = st.builds(Span, st.text("ab─", max_size=6), st.sampled_from(["", "series-1"]))
ROWS = st.lists(SPANS, max_size=3)


def cells(row: Row) -> list[tuple[str, str]]:
    found = [(char, span.ink) for span in row for char in span.text]
    return (found + [(" ", "")] * WIDTH)[:WIDTH]


@given(ROWS, ROWS)
def test_every_cell_that_changed_is_drawn_again(old: Row, new: Row) -> None:
    shown = cells(old)
    for start, end in differences(old, new, WIDTH):
        shown[start:end] = cells(new)[start:end]
    assert shown == cells(new)


def test_only_the_numbers_of_a_legend_are_drawn_again() -> None:
    old = [Span("━ ", "series-1"), Span("mean ", "quiet"), Span("0.41"), Span("  std "), Span("2")]
    new = [*old[:2], Span("0.47"), old[3], Span("3")]
    assert list(differences(old, new, 40)) == [(10, 11), (17, 18)]


def test_equal_rows_need_nothing() -> None:
    row = [Span("abc"), Span("d", "series-1")]
    assert list(differences(row, list(row), WIDTH)) == []
