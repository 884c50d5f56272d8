"""Times in logs: what counts as one, what a person may type, and the first line at or after it."""

from __future__ import annotations

import os
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.base.errors import UsageError
from engine.logs.log_file import BLOCK, LogFile
from engine.logs.log_times import Asked, LogTimes

pytestmark = pytest.mark.long

START = datetime(2026, 1, 31, 22, 0, 0)


def opened(path: Path, *lines: bytes) -> LogFile:
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    os.utime(path, (START.timestamp(), START.timestamp()))
    return LogFile.open(path)


def told(when: datetime) -> bytes:
    return b"INFO:" + when.strftime("%Y-%m-%d %H:%M:%S,123").encode() + b":words"


@pytest.mark.parametrize(
    "line",
    [
        b"2026-01-31 14:03:20,859\tINFO worker.py:2014 -- Started",
        b"2026-01-31T14:03:20.859Z started",
        b"[2026/01/31 14:03:20] started",
        b"INFO:2026-01-31 14:03:20,888:Platform",
        b"\x1b[36m(WorkerDict pid=9)\x1b[0m INFO 01-31 14:03:20 [core.py:1] started",
        b"[rank0]:W0131 14:03:20.226000 1293 torch/x.py:1] started",
    ],
)
def test_the_time_of_a_line_is_read(tmp_path: Path, line: bytes) -> None:
    result = LogTimes(opened(tmp_path / "log", b"before", line)).oldest()
    assert result is not None
    assert (result.when, result.offset) == (datetime(2026, 1, 31, 14, 3, 20), 7)


@pytest.mark.parametrize(
    "line",
    [
        b"| 3/37 [00:10<01:20, 2.1it/s]",
        b"2026-13-41 14:03:20 is no day",
        b"1-02-2026-01-31 14:03:201",
        b"x" * 300 + b" 2026-01-31 14:03:20",
    ],
)
def test_other_numbers_are_no_times(tmp_path: Path, line: bytes) -> None:
    times = LogTimes(opened(tmp_path / "log", line))
    assert times.oldest() is None
    assert times.newest() is None
    assert times.at_or_after(START) is None


def test_without_a_year_it_is_the_last_one_that_it_can_have_been(tmp_path: Path) -> None:
    result = LogTimes(opened(tmp_path / "log", b"INFO 12-31 23:59:58 old year")).oldest()
    assert result is not None and result.when.year == 2025


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("23:30", datetime(2026, 1, 31, 23, 30)),
        ("04:00", datetime(2026, 2, 1, 4, 0)),
        ("4:00:20", datetime(2026, 2, 1, 4, 0, 20)),
        ("2026-02-01", datetime(2026, 2, 1)),
        ("2026-01-31 22:30", datetime(2026, 1, 31, 22, 30)),
        ("2026-01-31T22:30:15", datetime(2026, 1, 31, 22, 30, 15)),
        ("-10m", datetime(2026, 2, 1, 4, 50)),
        ("-1.5h", datetime(2026, 2, 1, 3, 30)),
        ("-9d", START),
        ("12:00", datetime(2026, 2, 1, 12, 0)),
    ],
)
def test_a_time_is_meant_as_in_a_log_from_ten_at_night_to_five(text: str, moment: datetime) -> None:
    assert Asked.parse(text).moment(START, datetime(2026, 2, 1, 5, 0)) == moment


@pytest.mark.parametrize("text", ["", "noon", "25:00", "14:60", "2026-02-30", "10m", "-10", "14"])
def test_an_invalid_time_is_refused_with_examples(text: str) -> None:
    with pytest.raises(UsageError, match="is no time; try 14:03"):
        Asked.parse(text)


@settings(max_examples=30)
@given(st.lists(st.integers(0, 100), min_size=1, max_size=30), st.integers(0, 12_000))
def test_the_first_line_at_or_after_a_moment_is_found(
    tmp_path_factory: pytest.TempPathFactory, fillers: list[int], second: int
) -> None:
    """Lines with a time, one every minute, and many without one in between."""
    lines: list[bytes] = []
    for minute, count in enumerate(fillers):
        lines += [b"x" * 4000] * count + [told(START + timedelta(minutes=minute))]
    path = tmp_path_factory.mktemp("times") / "log"
    file, moment = opened(path, *lines), START + timedelta(seconds=second)
    wanted = next(
        (n for n, _ in enumerate(fillers) if START + timedelta(minutes=n) >= moment), None
    )
    result = LogTimes(file).at_or_after(moment)
    if wanted is None:
        assert result is None
    else:
        assert result is not None
        assert result.when == START + timedelta(minutes=wanted)
        assert file.read(result.offset, result.offset + 5) == b"INFO:"


def test_of_a_large_file_only_a_few_blocks_are_read(tmp_path: Path) -> None:
    lines = [told(START + timedelta(seconds=n)) + b"x" * 1000 for n in range(20_000)]
    file = opened(tmp_path / "log", *lines)
    read: list[int] = []
    block = file.block
    file.block = lambda number: (read.append(number), block(number))[1]  # type: ignore[method-assign]
    result = LogTimes(file).at_or_after(START + timedelta(seconds=15_000))
    assert result is not None and result.when == START + timedelta(seconds=15_000)
    assert file.size > 70 * BLOCK
    assert len(set(read)) < 20


def test_a_search_ends_when_it_is_cancelled(tmp_path: Path) -> None:
    times = LogTimes(opened(tmp_path / "log", told(START)), lambda: True)
    assert times.at_or_after(START) is None
