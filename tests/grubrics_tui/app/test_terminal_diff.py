"""What is left out of what Textual writes, and that the terminal shows the same all the same."""

from __future__ import annotations

import pyte
from hypothesis import given
from hypothesis import strategies as st

from grubrics_tui.app.textual_internals import TerminalDiff

WIDTH, HEIGHT = 30, 5
RED, BOLD = "31", "1;38;2;1;2;3"


def at(row: int, column: int, text: str = "", style: str = "") -> str:
    """A stretch of text, as Textual writes it; rows and columns count from 1."""
    return f"\x1b[{row};{column}H" + (f"\x1b[{style}m{text}\x1b[0m" if style else text)


REST = at(1, 1)
STYLED = st.tuples(
    st.text("ab 0─⣿", max_size=8) | st.sampled_from(["日本", "e\u0301", "👩‍💻", "\u200b"]),
    st.sampled_from(["", RED, BOLD, "0"]),
)
STRETCHES = st.tuples(
    st.integers(1, HEIGHT), st.integers(1, WIDTH // 3), st.lists(STYLED, max_size=3)
)


def frame_of(stretches: list[tuple[int, int, list[tuple[str, str]]]]) -> str:
    """From the top to the bottom; a line break follows each stretch above the lowest line."""
    lowest = max(row for row, _, _ in stretches)
    parts = []
    for row, column, runs in sorted(stretches, key=lambda stretch: stretch[0]):
        text = "".join(f"\x1b[{style}m{text}\x1b[0m" for text, style in runs)
        parts.append(at(row, column) + text + ("\n" if row < lowest else ""))
    return "".join(parts) + REST


FRAMES = st.lists(STRETCHES, min_size=1, max_size=6).map(frame_of)
OTHERS = st.sampled_from(
    ["\x1b[2J", "\x1b[?1049h", "\x1b[?2026h", "\x1b]0;a title\x07", "\x1b[31mred", "a\tb", "\x1bM"]
)


class Screen:
    """A terminal: its cells with their colors, and where its cursor rests."""

    def __init__(self) -> None:
        self._screen = pyte.Screen(WIDTH, HEIGHT)
        self._screen.reset_mode(pyte.modes.DECAWM)  # As Textual does: lines do not wrap.
        self._stream = pyte.Stream(self._screen)

    def feed(self, data: str) -> None:
        self._stream.feed(data)

    @property
    def cells(self) -> object:
        screen = self._screen
        return [[screen.buffer[y][x] for x in range(WIDTH)] for y in range(HEIGHT)], (
            screen.cursor.x,
            screen.cursor.y,
        )


@given(st.lists(FRAMES | FRAMES | OTHERS, max_size=8))
def test_a_terminal_ends_up_the_same_with_less(writes: list[str]) -> None:
    whole, spared, shown = Screen(), Screen(), TerminalDiff()
    for data in writes:
        whole.feed(data)
        spared.feed(shown.sent(data))
        assert spared.cells == whole.cells


def test_only_cells_that_change_are_sent() -> None:
    shown = TerminalDiff()
    shown.sent(at(3, 5, "loss 0.41", RED) + REST)
    assert shown.sent(at(3, 5, "loss 0.42", RED) + REST) == at(3, 13) + "\x1b[0;31m2\x1b[0m" + REST


def test_a_cell_of_another_color_is_a_change() -> None:
    shown = TerminalDiff()
    shown.sent(at(1, 2, "a", RED) + REST)
    assert "a" in shown.sent(at(1, 2, "a", BOLD) + REST)


def test_a_frame_that_changes_nothing_is_a_move_of_the_cursor() -> None:
    shown, frame = TerminalDiff(), at(2, 2, "same") + "\n" + at(3, 2, "same") + REST
    shown.sent(frame)
    assert shown.sent(frame) == REST


def test_changes_far_from_each_other_are_sent_apart() -> None:
    shown = TerminalDiff()
    shown.sent(at(1, 2, "1" + "x" * 20 + "1") + REST)
    assert shown.sent(at(1, 2, "2" + "x" * 20 + "2") + REST).count("x") == 0


def test_wide_characters_go_through_with_their_whole_stretch() -> None:
    shown, frame = TerminalDiff(), at(2, 2, "日本 loss", RED) + REST
    shown.sent(frame)
    assert "日本 loss" in shown.sent(frame)


def test_one_repaint_is_sent_whole_where_something_else_may_have_drawn_on_the_screen() -> None:
    shown = TerminalDiff()
    repaint = "\n".join(at(row, 1, "line") for row in range(1, HEIGHT + 1)) + REST
    shown.sent(repaint)
    assert shown.sent(repaint) == REST
    shown.repairs = True
    assert shown.sent(repaint).count("line") == HEIGHT
    assert shown.sent(repaint) == REST


def test_a_color_that_stays_is_not_sent_again() -> None:
    text = at(1, 1, "a", "1;38;2;1;2;3;48;5;4") + "\x1b[1;38;2;9;9;9;48;5;4mb\x1b[0m" + REST
    assert TerminalDiff().sent(text).endswith("ma\x1b[38;2;9;9;9mb\x1b[0m" + REST)


def test_nothing_is_known_after_what_is_no_frame() -> None:
    shown, frame = TerminalDiff(), at(2, 2, "text") + REST
    shown.sent(frame)
    assert shown.sent("\x1b[?1049h") == "\x1b[?1049h"
    assert "text" in shown.sent(frame)
