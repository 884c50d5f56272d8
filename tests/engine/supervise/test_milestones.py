"""Which validations and checkpoints a run's log names."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.base import jsonl
from engine.run.history.train_log import Step
from engine.run.run import Run
from engine.supervise.milestones import CheckpointWatch, skipped_updates_of, validation_of
from tests.engine.supervise.faults.stage import Stage
from tests.engine.supervise.standin import save
from tests.waiting import ended


def found(watch: CheckpointWatch) -> list[int]:
    return [step for step, _ in watch.new()]


def test_each_checkpoint_is_found_once_when_it_is_complete(tmp_path: Path) -> None:
    watch = CheckpointWatch(tmp_path)
    assert found(watch) == []
    save(tmp_path, 5, 0.0)
    assert list(watch.new()) == [(5, tmp_path / "global_step_5")]
    assert found(watch) == []


def test_checkpoints_between_two_looks_are_all_found(tmp_path: Path) -> None:
    save(tmp_path, 1, 0.0)
    watch = CheckpointWatch(tmp_path)
    save(tmp_path, 2, 0.0)
    save(tmp_path, 3, 0.0)
    assert found(watch) == [2, 3]


def test_one_that_lacks_a_file_is_not_found(tmp_path: Path) -> None:
    watch = CheckpointWatch(tmp_path)
    save(tmp_path, 1, 0.0)
    (tmp_path / "global_step_1/data.pt").unlink()
    assert found(watch) == []


def test_a_run_that_goes_on_from_an_earlier_step_saves_lower_steps(tmp_path: Path) -> None:
    for step in (1, 2, 3):
        save(tmp_path, step, 0.0)
    watch = CheckpointWatch(tmp_path)
    save(tmp_path, 2, 0.0)
    assert found(watch) == [2]


@pytest.mark.parametrize(
    ("metrics", "expected"),
    [
        ({"val/reward": 0.5, "actor/lr": 1.0}, {"step": 4, "reward": 0.5}),
        (
            {"val/reward": 0.5, "val/reward_low": 0.4, "val/reward_high": 0.6},
            {"step": 4, "reward": 0.5, "low": 0.4, "high": 0.6},
        ),
        ({"val/loss": 1.25}, {"step": 4, "loss": 1.25}),
        ({"actor/lr": 1.0}, None),
    ],
)
def test_a_step_has_a_validation_if_it_has_a_result(
    metrics: dict[str, float], expected: dict[str, float] | None
) -> None:
    assert validation_of(Step(4, 1, 0.0, metrics)) == expected


@pytest.mark.waits
@pytest.mark.row("H14")
def test_the_log_of_a_run_names_its_checkpoints_and_its_error(tmp_path: Path) -> None:
    stage = Stage(tmp_path / "runs")
    saves = tmp_path / "checkpoints"
    run = stage.start("--save-to", str(saves), "--fail-at", "3", checkpoints=saves)
    ended(run)
    stage.clear_away()
    assert [(name, step) for name, step in told(run) if name in ("checkpoint", "error")] == [
        ("checkpoint", 1), ("checkpoint", 2), ("error", 2),
    ]  # fmt: skip


def told(run: Run) -> list[tuple[str, int | None]]:
    return [(str(event["event"]), event.get("step")) for event in jsonl.read(run.events)]


@pytest.mark.parametrize(
    ("share", "expected"),
    [(0.5, {"step": 4, "share": 0.5, "in_a_row": 2.0}), (0.0, None), (None, None)],
)
def test_a_step_with_skipped_updates_is_named(
    share: float | None, expected: dict[str, float] | None
) -> None:
    metrics = {"updates/skipped_share": share, "updates/max_skipped_in_a_row": 2.0}
    assert skipped_updates_of(Step(4, 1, 0.0, metrics)) == expected
