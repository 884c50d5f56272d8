"""Lines of programs that print in a layout of their own."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.base.errors import UsageError
from engine.logs.formats.pattern import PatternFormat, is_pattern
from engine.run.history.train_log import Step

ITER = r"iter (?P<step>\d+): loss (?P<loss>[^ ]+)(?: lr (?P<learning_rate>\S+))?"


def read(pattern: str, *lines: str) -> list[Step]:
    parser = PatternFormat(pattern).parser(Path("console.log"))
    return parser.feed([line.encode() for line in lines])


def test_named_groups_are_the_metrics_of_a_step() -> None:
    (step,) = read(ITER, "iter 7: loss 0.5, time 2 s")
    assert (step.step, step.metrics) == (7, {"train/loss": 0.5})
    (step,) = read(ITER, "iter 7: loss 0.5, lr 1e-05")
    assert (step.step, step.metrics) == (7, {"train/loss": 0.5, "train/lr": 1e-05})


def test_lines_without_a_number_of_the_step_are_counted() -> None:
    steps = read(r"loss (?P<loss>\S+)", "loss 2", "saving", "loss 1")
    assert [(step.step, step.metrics["train/loss"]) for step in steps] == [(1, 2.0), (2, 1.0)]


def test_a_text_in_place_of_a_number_is_left_out() -> None:
    assert read(ITER, "iter 7: loss unknown") == []


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        (r"(?P<step>\d+", "unterminated"),
        (r"(?P<step>\d+)", "add a named group"),
    ],
)
def test_a_pattern_that_finds_no_number_is_refused(pattern: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        PatternFormat(pattern)


def test_a_path_is_no_pattern() -> None:
    assert is_pattern(ITER)
    assert not is_pattern("outputs/run (1)/trainer_log.jsonl")


@given(st.binary(max_size=200))
def test_any_bytes_are_read_without_an_error(line: bytes) -> None:
    PatternFormat(ITER).parser(Path("console.log")).feed([line, b"iter 1: loss " + line])
