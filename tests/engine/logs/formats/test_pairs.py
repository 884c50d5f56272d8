"""Lines that name a step and its numbers, as scripts and torchtune print them."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.base.errors import UsageError
from engine.logs.formats.consoles import Pairs
from engine.logs.formats.detect import detect
from tests.engine.logs.formats.samples import DICTS, verl_line, write


@pytest.mark.parametrize(
    "line",
    [
        "step=3 loss=0.5 lr=1e-05",
        "[rank0] step=3, loss=0.5, lr=1e-05",
        "2026-01-01 00:00:00 INFO Step 3 | loss:0.5 lr:1e-05",
        "global_step: 3 | loss: 0.5 | lr: 1e-05",
    ],
)
def test_a_step_is_read_with_its_numbers_in_every_layout(line: str) -> None:
    (step,) = Pairs().feed([line.encode()])
    assert (step.step, step.metrics) == (3, {"train/loss": 0.5, "train/lr": 1e-05})


def test_the_number_of_steps_may_follow_the_step() -> None:
    parser = Pairs()
    (step,) = parser.feed([b"step 3/20: reward=0.25 kl=nan"])
    assert (step.step, parser.about().total_steps) == (3, 20)
    assert step.metrics == {"reward/mean": 0.25, "actor/kl_loss": None}


def test_a_step_below_the_one_before_is_trained_again() -> None:
    steps = Pairs().feed([b"step=1 loss=3", b"step=2 loss=2", b"step=1 loss=1"])
    assert [(step.step, step.attempt, step.redone) for step in steps] == [
        (1, 1, False),
        (2, 1, False),
        (1, 2, True),
    ]


@pytest.mark.parametrize(
    "line",
    [
        "saved the checkpoint of step=3",
        "step 3: loading shard=2",
        "first_step=3 loss=0.5",
        "step=3 loss=high",
    ],
)
def test_a_line_without_a_step_and_a_loss_or_reward_is_of_no_format(
    tmp_path: Path, line: str
) -> None:
    with pytest.raises(UsageError, match="no known format"):
        detect(write(tmp_path / "x", line))


@pytest.mark.parametrize(
    ("line", "key"), [(verl_line(1, {"actor/pg_loss": 0.5}), "verl"), (DICTS[0], "hf")]
)
def test_a_trainer_that_is_known_counts_before_its_other_lines(
    tmp_path: Path, line: str, key: str
) -> None:
    assert detect(write(tmp_path / "x", "step=1 loss=0.5", line)).format.key == key


@given(st.binary(max_size=200))
def test_any_bytes_are_read_without_an_error(line: bytes) -> None:
    Pairs().feed([line, b"step=1 " + line])
