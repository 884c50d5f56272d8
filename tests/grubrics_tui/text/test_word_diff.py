"""What differs between two answers."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from grubrics_tui.text.word_diff import Piece, differences

texts = st.text("ab .\n", max_size=60)


@given(texts, texts)
def test_each_side_can_be_put_together_from_the_pieces(own: str, other: str) -> None:
    pieces = differences(own, other)
    assert "".join(p.text for p in pieces if p.kind != "missing") == own
    assert "".join(p.text for p in pieces if p.kind != "added") == other


def test_only_the_words_that_differ_are_marked() -> None:
    assert differences("drink cold water\nrest", "drink warm water\nrest") == (
        Piece("same", "drink "),
        Piece("missing", "warm"),
        Piece("added", "cold"),
        Piece("same", " water\nrest"),
    )


def test_what_is_too_long_to_compare_is_marked_as_a_whole() -> None:
    own, other = ("a " * 5000, "b " * 5000)
    assert [piece.kind for piece in differences(own, other)] == ["missing", "added"]
