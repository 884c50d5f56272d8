"""Console bytes become text that can do nothing to the terminal."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from grubrics_tui.text.terminal_text import MAX_LINE, blanked, clean_line, clean_text, may_show


@given(st.binary(max_size=400))
@example(b"\x1b")
@example(b"\x1b]0;title")
@example(b"\xc2\x9b31m")
@example("\u202e\u2066\U000e0041".encode())
def test_no_control_character_survives(raw: bytes) -> None:
    kinds = {unicodedata.category(char) for char in clean_line(raw)}
    assert not kinds & {"Cc", "Cf", "Cs", "Zl", "Zp"}


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        (b"\x1b[36m(TaskRunner pid=7)\x1b[0m hello", "(TaskRunner pid=7) hello"),
        (b"before\x1b]52;c;ZXZpbA==\x07after", "beforeafter"),
        (b"\x1b[2J\x1b[1;1Hgone?", "gone?"),
        (b"\x1bP1$r\x1b\\x", "x"),
        (b"\xc2\x9b2Jx", "x"),
        (b"[bold red]markup[/] stays", "[bold red]markup[/] stays"),
        (b"caf\xc3\xa9 \xff", "café \ufffd"),
        (b"a\tb", "a       b"),
    ],
)
def test_sequences_vanish_and_text_stays(raw: bytes, shown: str) -> None:
    assert clean_line(raw) == shown


def test_a_progress_bar_shows_its_last_state() -> None:
    assert clean_line(b" 10%|#    | 1/10\r 50%|##### | 5/10\r") == " 50%|##### | 5/10"


def test_a_shorter_overwrite_keeps_the_rest_unless_the_line_was_erased() -> None:
    assert clean_line(b"abcdef\rXY") == "XYcdef"
    assert clean_line(b"abcdef\r\x1b[KXY") == "XY"


def test_an_endless_line_is_cut_and_says_so() -> None:
    text = clean_line(b"x" * (MAX_LINE + 5))
    assert text == "x" * MAX_LINE + "… (+5 characters)"


def test_a_blanked_text_keeps_its_places() -> None:
    text = "a\x1b[31mb\u202ec\nd"
    assert blanked(text) == "a [31mb c\nd"
    assert len(blanked(text)) == len(text)


key = "sk-" + "q7" * 12
pieces = st.sampled_from(["a", "B", " ", "\n", "\t", "ß", "\u200b", "\x1b[1m", "é", key])


@given(st.lists(pieces, max_size=8).map("".join), st.text("abs \né…q7", max_size=3))
def test_a_text_that_is_shown_is_never_ruled_out(text: str, wanted: str) -> None:
    if wanted in clean_text(text).casefold():
        assert may_show(text, wanted)


def test_a_text_that_cannot_be_shown_is_ruled_out() -> None:
    assert not may_show("an ordinary response\nof two lines, with an é", "gradient")
