"""Lines of a file, from any byte of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.logs import log_file
from engine.logs.log_file import Line, LogFile

SMALL = st.lists(st.sampled_from([b"\n", b"a", b"bc\n", b"", b"word " * 3]), max_size=60)


@pytest.fixture
def tiny_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_file, "BLOCK", 8)
    monkeypatch.setattr(log_file, "LONGEST", 64)


def opened(folder: Path, data: bytes) -> LogFile:
    path = folder / "console.log"
    path.write_bytes(data)
    return LogFile.open(path)


def spans(lines: list[bytes]) -> list[Line]:
    result, place = [], 0
    for line in lines:
        result.append(Line(place, place + len(line)))
        place += len(line)
    return result


@pytest.mark.usefixtures("tiny_blocks")
@given(st.data())
def test_lines_are_those_of_the_file_forwards_backwards_and_from_any_byte(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    text = b"".join(data.draw(SMALL))[:63]
    file = opened(tmp_path_factory.mktemp("log"), text)
    lines = spans(text.splitlines(keepends=True))
    assert list(file.forward(0)) == lines
    assert list(file.backward(len(text))) == lines[::-1]
    for line in lines:
        for offset in range(line.start, line.end):
            assert file.line_start(offset) == line.start
        assert (
            list(file.backward(line.start)) == [one for one in lines if one.end <= line.start][::-1]
        )


@pytest.mark.usefixtures("tiny_blocks")
@given(st.lists(st.sampled_from([b"\n", b"x" * 7, b"y" * 50, b"z" * 200]), max_size=12))
def test_an_endless_line_is_cut_at_the_same_offsets_from_anywhere(
    tmp_path_factory: pytest.TempPathFactory, parts: list[bytes]
) -> None:
    text = b"".join(parts)
    file = opened(tmp_path_factory.mktemp("log"), text)
    lines = list(file.forward(0))
    assert b"".join(file.read(line.start, line.end) for line in lines) == text
    assert all(line.end - line.start <= 2 * 64 for line in lines)
    assert list(file.backward(len(text))) == lines[::-1]
    for line in lines:
        starts = {file.line_start(offset) for offset in range(line.start, line.end)}
        assert starts == {line.start}


def test_a_line_of_ten_megabytes_is_one_line(tmp_path: Path) -> None:
    file = opened(tmp_path, b"before\n" + b"x" * 10_000_000 + b"\nafter\n")
    assert [line.end - line.start for line in file.forward(0)] == [7, 10_000_001, 6]
    assert file.line_start(5_000_000) == 7


def test_new_lines_are_visible_after_the_file_grew(tmp_path: Path) -> None:
    file = opened(tmp_path, b"one\ntw")
    with (tmp_path / "console.log").open("ab") as log:
        log.write(b"o\nthree\n")
    assert list(file.forward(0)) == [Line(0, 4), Line(4, 6)]
    file.grow(14)
    assert list(file.forward(0)) == [Line(0, 4), Line(4, 8), Line(8, 14)]


def test_a_pipe_or_a_folder_is_refused_and_never_waited_for(tmp_path: Path) -> None:
    import os

    os.mkfifo(tmp_path / "pipe")
    for odd in (tmp_path / "pipe", tmp_path):
        with pytest.raises(OSError, match="regular file"):
            LogFile.open(odd)


def test_a_file_that_lost_its_bytes_reads_as_empty(tmp_path: Path) -> None:
    file = opened(tmp_path, b"one\ntwo\n")
    (tmp_path / "console.log").write_bytes(b"")
    assert file.read(0, 8) == b""
    assert list(file.forward(0))[-1].end >= 8
