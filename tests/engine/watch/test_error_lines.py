"""The lines that say why a run failed."""

from __future__ import annotations

import pytest

from engine.watch.error_lines import is_error, last_errors, split_actor


def test_ray_prefixes_are_split_off() -> None:
    assert split_actor("(WorkerDict pid=3) text") == ("(WorkerDict pid=3) ", "text")
    assert split_actor("(not an actor) text") == ("", "(not an actor) text")


def test_raised_and_logged_errors_are_errors_and_warnings_are_not() -> None:
    assert is_error("torch.OutOfMemoryError: CUDA out of memory")
    assert is_error("(TaskRunner pid=1) ERROR: no judge")
    assert not is_error("UserWarning: something")
    assert not is_error("step:3 - critic/score/mean:0.1")


@pytest.mark.parametrize(
    "row",
    [
        "(TaskRunner pid=1)            'notify_on': ['critical', 'error'],",
        "{'guard': {'stop_on': ['fatal']}, 'log_level': 'error', 'model': {'path': 'data'}}",
        "          [{'name': 'fatal', 'error': None},",
        "                        'error',",
        "                        'critical', 'error']},",
        '  "on": "error",',
    ],
)
def test_the_rows_of_a_printed_configuration_are_no_errors(row: str) -> None:
    assert not is_error(row)


@pytest.mark.parametrize(
    "line",
    [
        '{"time": "12:00", "level": "error", "message": "no judge"}',
        "{'levelname': 'CRITICAL', 'msg': 'no judge'}",
        '"kernel.cu", line 12: error: expected a ";"',
        "'python' was Killed",
    ],
)
def test_a_line_that_begins_like_a_configuration_may_log_an_error(line: str) -> None:
    assert is_error(line)


def test_the_last_distinct_errors_come_oldest_first() -> None:
    lines = ["ValueError: a", "ValueError: a", "noise", "(A pid=1) KeyError: 'b'"]
    assert last_errors(lines, 3) == ["ValueError: a", "KeyError: 'b'"]


def test_without_an_error_the_last_lines_are_shown() -> None:
    assert last_errors(["one", "", "two", "three"], 2) == ["two", "three"]
