"""Following files that grow."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from engine.base.tail import Tail, last_lines, near_end


def test_only_whole_lines_are_read(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"one\ntw")
    tail = Tail(path)
    assert tail.lines() == [b"one"]
    path.write_bytes(b"one\ntwo\n")
    assert tail.lines() == [b"two"]


def test_a_file_that_is_not_there_yet_has_no_lines(tmp_path: Path) -> None:
    tail = Tail(tmp_path / "log")
    assert tail.lines() == []
    (tmp_path / "log").write_bytes(b"here\n")
    assert tail.lines() == [b"here"]


def test_a_truncated_file_is_read_from_its_start(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"a long first line\n")
    tail = Tail(path)
    tail.lines()
    path.write_bytes(b"new\n")
    assert tail.lines() == [b"new"]


def test_a_replaced_file_is_read_from_its_start(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"old\n")
    tail = Tail(path)
    tail.lines()
    (tmp_path / "next").write_bytes(b"first\nsecond\n")
    (tmp_path / "next").rename(path)
    assert tail.lines() == [b"first", b"second"]


@given(st.lists(st.binary(max_size=20)))
def test_any_cut_into_pieces_gives_the_same_lines(pieces: list[bytes]) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log"
        path.touch()
        tail, seen = Tail(path), []
        for piece in pieces:
            with path.open("ab") as handle:
                handle.write(piece)
            seen += tail.lines()
        whole = b"".join(pieces)
        assert seen == whole.split(b"\n")[:-1]


def test_a_tail_can_begin_with_a_whole_line_near_the_end(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"first\nsecond\nthird\n")
    assert Tail(path, near_end(path, 9)).lines() == [b"third"]
    assert Tail(path, near_end(path, 1000)).lines() == [b"first", b"second", b"third"]


def test_the_last_lines_of_a_big_file_cost_a_small_read(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"".join(b"line %d\n" % n for n in range(100_000)))
    assert last_lines(path, 2) == [b"line 99998", b"line 99999"]


def test_what_never_ends_a_line_is_dropped_and_reading_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "bars.log"
    bar = b"x" * (65 << 20)  # no line end for longer than a line may be
    path.write_bytes(bar + b"\nnext\n")
    tail = Tail(path)
    assert tail.lines() == []
    assert tail.lines()[-1] == b"next"
