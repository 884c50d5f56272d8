"""How a run that only validates ended."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.base import jsonl
from engine.history.train_log import last_validation
from engine.runs.rundir import Attempt
from engine.runs.state import RunState
from engine.supervise.verdict import Evidence, Exit, judge


def ended(folder: Path, code: int, validation: float | None) -> tuple[str, str | None]:
    attempt = Attempt(folder / "attempt_1")
    attempt.path.mkdir(exist_ok=True)
    attempt.console.touch()
    return judge(
        Evidence(
            exit=Exit(code),
            stopped_by=None,
            step=None,
            total_steps=0,
            checkpoint_complete=False,
            attempt=attempt,
            checkpoints=folder,
            validation=validation,
        )
    )


def test_it_has_finished_with_its_number(tmp_path: Path) -> None:
    state, reason = ended(tmp_path, 0, 0.5512)
    assert (state, reason) == (
        "finished",
        "validated only (trainer.val_only=true): reward 0.5512",
    )
    assert RunState("finished", reason).went_well


def test_without_a_number_it_has_failed(tmp_path: Path) -> None:
    assert ended(tmp_path, 0, None) == ("failed", "exit code 0, but no validation was logged")
    assert ended(tmp_path, 1, None)[0] == "failed"


def test_a_crash_after_the_validation_takes_nothing_from_it(tmp_path: Path) -> None:
    state, reason = ended(tmp_path, 1, 0.25)
    assert state == "finished" and (reason or "").startswith("teardown crash")


@pytest.mark.parametrize(("rewards", "last"), [([None, 0.1, 0.3, None], 0.3), ([None], None)])
def test_the_newest_validation_counts(
    tmp_path: Path, rewards: list[float | None], last: float | None
) -> None:
    log = tmp_path / "train_log.jsonl"
    for step, reward in enumerate(rewards):
        numbers = {} if reward is None else {"val/reward": reward}
        jsonl.append(log, {"step": step, "metrics": numbers})
    assert last_validation(log) == last
