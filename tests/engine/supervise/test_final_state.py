"""How a run ended that validates only, or whose steps are not those that were planned."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from engine.base import jsonl
from engine.run.history.train_log import last_validation
from engine.run.run import Attempt, Run
from engine.run.state import RunState
from engine.supervise.final_state import Evidence, Exit, final_state, full_disk
from engine.supervise.trainer import said_total


def state_of(
    folder: Path, code: int, validation: float | None, trouble: str | None = None
) -> tuple[str, str | None]:
    attempt = Attempt(folder / "attempt_1")
    attempt.path.mkdir(exist_ok=True)
    attempt.console.touch()
    return final_state(
        Evidence(
            exit=Exit(code),
            stopped_by=None,
            step=None,
            total_steps=0,
            checkpoint_complete=False,
            attempt=attempt,
            checkpoints=folder,
            validation=validation,
            trouble=trouble,
        )
    )


def test_a_run_whose_last_step_was_trained_before_has_finished(tmp_path: Path) -> None:
    seen = Evidence(
        exit=Exit(0),
        stopped_by=None,
        step=None,
        total_steps=7,
        checkpoint_complete=True,
        attempt=Attempt(tmp_path),
        checkpoints=tmp_path,
    )
    assert final_state(seen) == ("finished", "nothing to train: the last step was trained before")
    assert final_state(replace(seen, checkpoint_complete=False))[0] == "failed"
    assert final_state(replace(seen, step=4))[0] == "failed"


def test_the_total_is_what_verl_counts_in_the_rows_that_it_keeps() -> None:
    lines = [b"dataset len: 20", b"\x1b[36m(TaskRunner pid=1)\x1b[0m INFO: Total training steps: 4"]
    assert (said_total(lines), said_total(lines[:1])) == (4, None)


def test_a_run_that_validates_only_finishes_with_its_reward(tmp_path: Path) -> None:
    state, reason = state_of(tmp_path, 0, 0.5512)
    assert (state, reason) == (
        "finished",
        "validated only (trainer.val_only=true): reward 0.5512",
    )
    assert RunState("finished", reason).went_well


def test_a_run_that_validates_only_fails_without_a_reward(tmp_path: Path) -> None:
    assert state_of(tmp_path, 0, None) == ("failed", "exit code 0, but no validation was logged")
    assert state_of(tmp_path, 1, None)[0] == "failed"


def test_a_crash_after_the_validation_is_a_teardown_crash(tmp_path: Path) -> None:
    state, reason = state_of(tmp_path, 1, 0.25)
    assert state == "finished" and (reason or "").startswith("teardown crash")


def test_a_failure_also_names_the_file_that_cannot_be_written(tmp_path: Path) -> None:
    _, reason = state_of(tmp_path, 0, None, "cannot write state.json: No space left on device")
    assert (reason or "").endswith("; cannot write state.json: No space left on device")
    assert state_of(tmp_path, 0, 0.5, "/full/x: No space left on device")[0] == "finished"


@pytest.mark.parametrize(("rewards", "last"), [([None, 0.1, 0.3, None], 0.3), ([None], None)])
def test_the_newest_logged_validation_counts(
    tmp_path: Path, rewards: list[float | None], last: float | None
) -> None:
    log = tmp_path / "train_log.jsonl"
    for step, reward in enumerate(rewards):
        numbers = {} if reward is None else {"val/reward": reward}
        jsonl.append(log, {"step": step, "metrics": numbers})
    assert last_validation(log) == last


def test_a_full_disk_is_in_the_reason_of_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run(tmp_path)
    assert full_disk(run, run) is None
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=4096))
    state, reason = state_of(tmp_path, 1, None, full_disk(run, run))
    assert state == "failed"
    assert (reason or "").endswith(f"; no space left on device; 4 KiB free at {tmp_path}")
