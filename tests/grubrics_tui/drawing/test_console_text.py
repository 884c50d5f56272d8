"""Console bytes on the screen: colors are kept, nothing else is obeyed."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grubrics_tui.drawing.console_text import console_text, highlighted, less_indented, plain_line
from grubrics_tui.drawing.spans import Span


def inks(raw: bytes) -> list[tuple[str, str]]:
    return [(span.text, span.ink) for span in console_text(raw).spans]


def test_colors_become_roles_of_the_theme() -> None:
    assert inks(b"a \x1b[31mred\x1b[0m b") == [
        ("a ", "foreground"),
        ("red", "error"),
        (" b", "foreground"),
    ]
    bold = console_text(b"\x1b[1;32mok\x1b[22m.").spans
    assert bold == (Span("ok", "success", bold=True), Span(".", "success"))


@pytest.mark.parametrize(
    ("codes", "ink"),
    [
        (b"38;5;196", "error"),
        (b"38;5;4", "primary"),
        (b"38;2;80;110;255", "primary"),
        (b"38:2:40:200:60", "success"),
        (b"93", "warning"),
        (b"48;5;196", "foreground"),
        (b"38;5", "foreground"),
        (b"38;2;1", "foreground"),
        (b"38;2;999999;1;1", "foreground"),
    ],
)
def test_colors_of_256_and_of_millions_become_the_nearest_role(codes: bytes, ink: str) -> None:
    assert inks(b"\x1b[" + codes + b"mtext") == [("text", ink)]


@pytest.mark.parametrize("codes", [b"30;40", b"8", b"37;47", b"38;5;16", b"38;2;14;18;23", b"5;7"])
def test_nothing_can_be_hidden_by_its_color(codes: bytes) -> None:
    assert inks(b"\x1b[" + codes + b"msecret") == [("secret", "foreground")]


@pytest.mark.parametrize(
    "hostile",
    [
        b"\x1b]0;title\x07", b"\x1b[2J", b"\x1b[10;10H", b"\xc2\x9b2J", b"\x1bP+q\x1b\\", b"\x1bc",
        b"\x1b]52;c;ZXZpbA==\x07", b"\x00", b"\x7f", b"\xe2\x80\xae", b"\xe2\x80\x8b",
        b"\xef\xbb\xbf",
    ],
)  # fmt: skip
def test_everything_else_is_inert(hostile: bytes) -> None:
    assert console_text(b"be" + hostile + b"fore").text == "before"


def test_markup_stays_text() -> None:
    text = b"[red]no[/red] [@click=app.quit]no[/]"
    assert console_text(text).text == text.decode()


def test_a_ray_worker_is_split_from_what_it_says() -> None:
    line = console_text(b"\x1b[36m(WorkerDict pid=9)\x1b[0m step done\n")
    assert (line.source, line.text) == ("WorkerDict pid=9", "step done")
    assert plain_line(b"\x1b[36m(WorkerDict pid=9)\x1b[0m step done\n") == (
        "(WorkerDict pid=9) step done"
    )


def test_a_progress_bar_shows_its_last_state_and_whose_it_is() -> None:
    line = console_text(b"(W pid=9) \rload:  10%|#   | 1/10\rload: 100%|####| 10/10\r\n")
    assert (line.source, line.text) == ("W pid=9", "load: 100%|####| 10/10")


def test_a_shorter_text_covers_only_the_start_of_a_longer_one() -> None:
    assert console_text(b"12345\r\x1b[31mab").text == "ab345"
    assert console_text(b"12345\r\x1b[Kab").text == "ab"


def test_errors_and_warnings_stand_out() -> None:
    assert inks(b"(W pid=9) ValueError: no")[0][1] == "error"
    assert inks(b"2026-11-21 WARNING slow")[0][1] == "warning"


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        (b"(W pid=9)          'path': None", "    'path': None"),
        (b"      \x1b[31m   red\x1b[0m   words", "    red   words"),
        (b"  words", "  words"),
        (b"words      ", "words"),
        (b"            ", ""),
    ],
)
def test_words_behind_much_indentation_come_nearer(raw: bytes, shown: str) -> None:
    line = console_text(raw)
    assert less_indented(line, 4).text == shown
    assert less_indented(line, 4).source == line.source


def test_matches_are_marked_across_colors() -> None:
    spans = highlighted((Span("one t", "error"), Span("wo three")), re.compile("two"))
    assert [(span.text, span.paper) for span in spans] == [
        ("one ", ""), ("t", "mark"), ("wo", "mark"), (" three", ""),
    ]  # fmt: skip


PIECES = st.sampled_from(
    [b"\x1b", b"[", b"31m", b"\r", b"\n", b"\t", b"\x9b", b"]0;", b"\x07", b"text", b"\xff", b"\0"]
)


@given(st.lists(PIECES, max_size=30).map(b"".join) | st.binary(max_size=60))
def test_no_bytes_make_a_character_that_a_terminal_would_obey(raw: bytes) -> None:
    assert plain_line(raw).isprintable()
