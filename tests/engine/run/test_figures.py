"""The figures of a run that lists show, from the end of its log."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from engine.base import jsonl
from engine.run.figures import Figures, read_figures


@pytest.fixture
def train_log(tmp_path: Path) -> Path:
    return tmp_path / "train_log.jsonl"


def log(path: Path, step: int, metrics: Mapping[str, float | None], attempt: int = 1) -> None:
    jsonl.append(path, {"v": 1, "step": step, "attempt": attempt, "t": 1.0, "metrics": metrics})


def test_a_missing_log_has_no_figures(train_log: Path) -> None:
    assert read_figures(train_log) == Figures()


def test_the_last_eight_rewards_are_read_oldest_first(train_log: Path) -> None:
    for step in range(1, 21):
        log(train_log, step, {"reward/mean": step / 100})
    assert read_figures(train_log).rewards == tuple(step / 100 for step in range(13, 21))


def test_the_newest_validation_counts_however_long_ago(train_log: Path) -> None:
    for step in range(1, 60):
        validation = {"val/reward": step / 100} if step in (5, 10) else {}
        log(train_log, step, {"reward/mean": 0.5, **validation})
    assert read_figures(train_log).validation == 0.10


def test_of_a_repeated_step_the_later_line_counts(train_log: Path) -> None:
    for step in (1, 2, 3):
        log(train_log, step, {"reward/mean": 0.1 * step})
    log(train_log, 2, {"reward/mean": 0.9}, attempt=2)
    assert read_figures(train_log).rewards == pytest.approx((0.1, 0.9, 0.3))


def test_a_reward_that_was_nan_is_none_and_not_the_one_before(train_log: Path) -> None:
    log(train_log, 1, {"reward/mean": 0.5})
    log(train_log, 2, {"reward/mean": None})
    assert read_figures(train_log).rewards == (0.5, None)


def test_a_torn_last_line_is_skipped(train_log: Path) -> None:
    log(train_log, 1, {"reward/mean": 0.5})
    with train_log.open("a") as file:
        file.write('{"v": 1, "step": 2, "attempt": 1, "metrics": {"reward/mean": 0.')
    assert read_figures(train_log).rewards == (0.5,)


def test_losses_are_read_where_there_are_no_rewards(train_log: Path) -> None:
    for step in range(1, 21):
        log(train_log, step, {"train/loss": step / 100})
    expected = tuple(step / 100 for step in range(13, 21))
    assert read_figures(train_log) == Figures(losses=expected)


def test_the_loss_of_a_run_with_rewards_is_none_of_its_figures(train_log: Path) -> None:
    log(train_log, 1, {"reward/mean": 0.5, "train/loss": 2.0})
    log(train_log, 2, {"train/loss": 1.0})
    assert read_figures(train_log) == Figures(rewards=(0.5,))
