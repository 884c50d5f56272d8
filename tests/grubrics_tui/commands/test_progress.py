"""Progress of reading records."""

from __future__ import annotations

import pytest

from grubrics_tui.commands.shared.progress import record_progress


class Clock:
    """A clock that the test moves, in seconds."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_short_reading_prints_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with record_progress(as_json=False, clock=Clock()) as report:
        for number in range(1, 1000):
            report(number, "a.jsonl")
    assert capsys.readouterr().err == ""


def test_a_long_one_prints_a_line_every_half_minute_and_at_the_end(
    capsys: pytest.CaptureFixture[str],
) -> None:
    clock = Clock()
    with record_progress(as_json=False, clock=clock) as report:
        for number in range(1, 61):
            clock.now += 1
            report(number, "a.jsonl")
        report(61, "a.jsonl")
    assert capsys.readouterr().err.splitlines() == [
        "2 records, a.jsonl (0:02)",
        "32 records, a.jsonl (0:32)",
        "61 records, a.jsonl (1:00)",
    ]


def test_an_error_ends_the_line(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()

    def read() -> None:
        with record_progress(as_json=False, clock=clock) as report:
            clock.now = 2
            report(7, "a.jsonl")
            raise ValueError("bad")

    with pytest.raises(ValueError, match="bad"):
        read()
    assert capsys.readouterr().err == "7 records, a.jsonl (0:02)\n" * 2


def test_for_programs_nothing_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    with record_progress(as_json=True, clock=clock) as report:
        clock.now = 100.0
        report(1, "a.jsonl")
    assert capsys.readouterr().err == ""
