"""Following files that grow."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from hypothesis import example, given
from hypothesis import strategies as st

from engine.base.follow import RESTARTS, FileFollower, Tail, last_lines, near_end


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


Operation = tuple[str, int, bytes]
"""Name, bytes that stay, bytes that are written."""


def apply(operation: Operation, path: Path) -> bytes:
    """Do to the file what writers and log rotation do; return its content then."""
    name, stays, data = operation
    if name in ("append", "truncate", "truncate and append"):
        with path.open("ab") as handle:
            if name != "append":
                handle.truncate(min(stays, path.stat().st_size))
            if name != "truncate":
                handle.write(data)
    elif name == "rewrite":
        path.write_bytes(data)
    elif name == "replace":
        (path.parent / "next").write_bytes(data)
        (path.parent / "next").rename(path)
    else:
        path.rename(path.with_suffix(".1"))
        path.write_bytes(data)
    return path.read_bytes()


operations = st.tuples(
    st.sampled_from(["append", "truncate", "truncate and append", "rewrite", "replace", "rotate"]),
    st.integers(0, 30),
    st.binary(max_size=20) | st.sampled_from([b"a\nb", b"\n", b"\xff\xfe\n\x80"]),
)


@given(st.lists(operations, max_size=15))
@example([("append", 0, b"a\nb"), ("truncate and append", 2, b"c\n"), ("rotate", 0, b"\xff\n")])
def test_readers_have_the_content_of_a_file_through_any_change(todo: list[Operation]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log"
        path.touch()
        by_chunk, by_line, tail = FileFollower(path), FileFollower(path), Tail(path)
        chunks, lines, tailed, restarts = b"", b"", b"", 0
        for operation in todo:
            content = apply(operation, path)
            complete = content[: content.rfind(b"\n") + 1]

            chunks = b"" if by_chunk.poll() in RESTARTS else chunks
            assert by_chunk.file is not None
            chunks += b"".join(by_chunk.file.chunks(7))
            assert chunks == content and not by_chunk.file.behind()

            lines = b"" if by_line.poll() in RESTARTS else lines
            assert by_line.file is not None
            for offset, line in by_line.file.lines():
                assert offset == len(lines)
                lines += line
            assert lines == complete

            new = tail.block()
            tailed, restarts = (tailed if tail.restarts == restarts else b"") + new, tail.restarts
            assert tailed == complete


def test_a_poll_returns_the_change_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "log"
    follower = FileFollower(path)
    assert follower.poll() == "" and follower.file is None
    path.write_bytes(b"one\n")
    assert (follower.poll(), follower.poll()) == ("opened", "grew")
    assert follower.file is not None and list(follower.file.chunks(2)) == [b"on", b"e\n"]
    assert follower.poll() == ""
    with path.open("r+b") as handle:
        handle.write(b"two\nthree\n")
    assert (follower.poll(), follower.restarts) == ("truncated", 1)
    path.unlink()
    assert (follower.poll(), follower.poll()) == ("deleted", "grew") and follower.is_deleted
    path.write_bytes(b"")
    assert (follower.poll(), follower.restarts, follower.is_deleted) == ("replaced", 2, False)
    path.unlink()
    os.mkfifo(path)
    assert follower.poll() == "deleted"


def test_a_part_is_read_again_unless_the_next_one_was_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"one\ntwo\n")
    follower = FileFollower(path)
    follower.poll()
    assert follower.file is not None
    for line in follower.file.lines():
        if line == (4, b"two\n"):
            break
    assert list(follower.file.lines()) == [(4, b"two\n")]
    assert list(follower.file.lines(lambda: True)) == []


def test_the_rest_of_a_rotated_file_comes_before_the_new_one(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"one\ntw")
    tail = Tail(path)
    assert tail.lines() == [b"one"]
    with path.open("ab") as writer:
        path.rename(tmp_path / "log.1")
        path.write_bytes(b"three\n")
        writer.write(b"o\n")
        writer.flush()
        assert tail.lines() == [b"two", b"three"]
        writer.write(b"late\n")
        writer.flush()
        assert tail.lines() == [b"late"]


def test_an_endless_line_is_dropped_and_reading_continues(tmp_path: Path) -> None:
    path = tmp_path / "bars.log"
    bar = b"x" * (65 << 20)  # no line end for longer than a line may be
    path.write_bytes(bar + b"\nnext\n")
    tail = Tail(path)
    assert tail.lines() == []
    assert tail.lines()[-1] == b"next"
