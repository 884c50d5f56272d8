"""Breaking text into rows."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from grubrics_tui.drawing.spans import Span, clipped, width_of, wrapped
from tests.grubrics_tui.plain_picture import plain

texts = st.lists(st.text("ab 世\n", max_size=20), max_size=6)


@given(texts, st.integers(2, 12))
def test_rows_fit_and_lose_nothing_but_blanks(parts: list[str], width: int) -> None:
    rows = wrapped([Span(part, ink) for part, ink in zip(parts, "xyzxyz", strict=False)], width)
    assert all(width_of(row) <= width for row in rows)
    shown = "".join(span.text for row in rows for span in row)
    assert shown.replace(" ", "") == "".join(parts).replace(" ", "").replace("\n", "")


@given(texts)
def test_every_character_keeps_its_color(parts: list[str]) -> None:
    spans = [Span(part, ink) for part, ink in zip(parts, "xyzuvw", strict=False)]
    for row in wrapped(spans, 7):
        for span in row:
            origin = next(one for one in spans if one.ink == span.ink)
            assert span.text in origin.text


def test_rows_break_at_blanks_and_long_words_inside() -> None:
    assert plain(wrapped([Span("one two three\nfour"), Span("teen ok")], 8)) == (
        "one two\nthree\nfourteen\nok"
    )
    assert plain(wrapped([Span("abcdefghij")], 4)) == "abcd\nefgh\nij"


def test_empty_lines_stay() -> None:
    assert len(wrapped([Span("a\n\nb")], 5)) == 3


def test_what_is_cut_off_ends_in_an_ellipsis() -> None:
    assert clipped("abcdef", 4) == "abc…"
    assert clipped("世界世界", 5) == "世界…"
    assert clipped("ab", 4) == "ab"
