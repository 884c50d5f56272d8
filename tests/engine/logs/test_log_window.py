"""Which rows are in sight, and where the cursor is."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.logs.log_file import LogFile
from engine.logs.log_rows import LogWindow, Row, Rows

HEIGHT = 5


def one_line(row: Row) -> int:
    return 1


def window_of(folder: Path, lines: int) -> tuple[LogWindow, LogFile]:
    path = folder / "console.log"
    path.write_bytes(b"".join(b"line %03d\n" % number for number in range(lines)))
    file = LogFile.open(path)
    return LogWindow(Rows(file), file.size), file


def in_sight(window: LogWindow) -> list[int]:
    return [row.start // 9 for row in window.visible(HEIGHT, one_line)]


def test_it_opens_at_the_end_and_follows(tmp_path: Path) -> None:
    window, file = window_of(tmp_path, 20)
    assert in_sight(window) == [15, 16, 17, 18, 19]
    with (tmp_path / "console.log").open("ab") as log:
        log.write(b"line 020\n")
    file.grow(21 * 9)
    window.size = file.size
    assert in_sight(window) == [16, 17, 18, 19, 20]


def test_moving_up_stops_following_and_reaching_the_end_follows_again(tmp_path: Path) -> None:
    window, file = window_of(tmp_path, 20)
    in_sight(window)
    window.move(-2)
    file.grow(20 * 9)
    assert not window.following
    assert in_sight(window) == [15, 16, 17, 18, 19]
    window.move(2)
    assert window.following


def test_the_cursor_pulls_the_rows_with_it(tmp_path: Path) -> None:
    window, _ = window_of(tmp_path, 20)
    in_sight(window)
    window.move(-7)
    assert window.cursor // 9 == 12 and in_sight(window)[0] == 12
    window.move(6)
    assert window.cursor // 9 == 18 and in_sight(window)[-1] == 18


def test_an_offset_is_shown_with_the_lines_before_it(tmp_path: Path) -> None:
    window, _ = window_of(tmp_path, 40)
    window.go_to(20 * 9 + 4, HEIGHT)
    assert window.cursor == 20 * 9
    assert in_sight(window) == [19, 20, 21, 22, 23]


def test_near_the_end_the_window_stays_full(tmp_path: Path) -> None:
    window, _ = window_of(tmp_path, 20)
    window.go_to(19 * 9, HEIGHT)
    assert in_sight(window) == [15, 16, 17, 18, 19]
    assert not window.following


def test_tall_rows_are_counted(tmp_path: Path) -> None:
    window, _ = window_of(tmp_path, 20)
    rows = window.visible(HEIGHT, lambda row: 2)
    assert [row.start // 9 for row in rows] == [17, 18, 19] and window.fills_upwards
    assert len(window.visible(HEIGHT, lambda row: 50)) == 1


MOVES = st.lists(
    st.one_of(st.integers(-12, 12), st.integers(0, 400).map(lambda place: ("go", place))),
    max_size=20,
)


@given(st.integers(0, 40), st.integers(1, 9), MOVES)
def test_the_cursor_is_always_in_sight_and_the_rows_are_neighbours(
    tmp_path_factory: pytest.TempPathFactory, lines: int, height: int, moves: list[object]
) -> None:
    window, _ = window_of(tmp_path_factory.mktemp("log"), lines)
    for move in moves:
        if isinstance(move, tuple):
            window.go_to(move[1], height)
        elif isinstance(move, int):
            window.move(move)
        shown = window.visible(height, one_line)
        assert len(shown) == min(lines, height)
        assert all(one.end == two.start for one, two in pairwise(shown))
        if lines:
            assert any(row.start == window.cursor for row in shown)
