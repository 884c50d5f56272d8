"""What the arms of an ablation are compared by, read from the files of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from engine.base import jsonl
from engine.measure.ablations.measure import Measure
from engine.reward.formula import RewardSettings
from engine.run.history.metrics import VALIDATION_REWARD
from engine.run.history.train_log import read_steps
from engine.run.run import Run
from tests.engine.report.runs import log_steps, make_run

WITH_WEIGHTS_OF_BASE = Measure(
    "validation reward with the base's weights",
    VALIDATION_REWARD,
    settings=RewardSettings(lambda_info=0.5, lambda_defense=0),
)


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return make_run(tmp_path)


def record(run: Run, step: int, *alignments: float, attempt: int = 1) -> None:
    """Validate one answer for each alignment; all have an information value of 0.4."""
    path = run.attempt(attempt).reward
    path.parent.mkdir(exist_ok=True)
    for number, alignment in enumerate(alignments):
        parts = {"info_value": 0.4, "defense_penalty": 0.9, "length_penalty": 0.0}
        line: dict[str, Any] = {"v": 1, "t": 1.0, "split": "val", "step": step, "rollout": 0}
        line |= {"group": f"g{number}", "question_id": f"q{number}", "reward": 0.0, "n_chars": 10}
        jsonl.append(path, {**line, "parts": {**parts, "alignment": alignment}})


def measured(run: Run) -> dict[int, float]:
    return WITH_WEIGHTS_OF_BASE.read(run, list(read_steps(run.train_log)))


def test_answers_are_scored_again_with_the_weights_of_the_base(run: Run) -> None:
    record(run, 1, 0.2, 0.6)
    log_steps(run, [{VALIDATION_REWARD: 0.1}])
    assert measured(run) == {1: pytest.approx(0.4 + 0.5 * 0.4)}


def test_a_validation_that_has_not_ended_does_not_count(run: Run) -> None:
    record(run, 1, 0.2, 0.6)
    log_steps(run, [{VALIDATION_REWARD: 0.1}])
    record(run, 2, -1.0)
    assert list(measured(run)) == [1]


def test_a_validation_that_was_killed_in_a_later_attempt_does_not_replace_the_whole_one(
    run: Run,
) -> None:
    record(run, 1, 0.2, 0.6)
    log_steps(run, [{VALIDATION_REWARD: 0.1}])
    record(run, 1, -1.0, attempt=2)
    assert measured(run) == {1: pytest.approx(0.6)}


def test_a_repeated_validation_replaces_the_first(run: Run) -> None:
    for attempt, alignment in ((1, 0.2), (2, 0.8)):
        record(run, 1, alignment, attempt=attempt)
        log_steps(run, [{VALIDATION_REWARD: 0.1}], attempt)
    assert measured(run) == {1: pytest.approx(1.0)}
