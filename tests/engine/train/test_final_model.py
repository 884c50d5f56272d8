"""A GRPO run that has no final model says why."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import psutil
import pytest

from engine.run.checkpoints import model_folder
from engine.train.final_checkpoint import whole_folder
from engine.train.grpo import resumed_at_end
from engine.train.ray_tasks import write_final_model


def config(folder: Path, save_freq: int = 2, *, final_model: bool = True) -> dict[str, Any]:
    trainer = {"default_local_dir": str(folder), "save_freq": save_freq, "val_only": False}
    rollout = {"rollout": {"dtype": "float32"}}
    return {
        "grubrics": {"final_model": final_model},
        "trainer": trainer,
        "actor_rollout_ref": rollout,
    }


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """A folder with a checkpoint of step 4."""
    (tmp_path / "latest_checkpointed_iteration.txt").write_text("4")
    shards = tmp_path / "global_step_4/actor"
    shards.mkdir(parents=True)
    (shards / "model_world_size_1_rank_0.pt").write_bytes(bytes(100))
    return tmp_path


def test_a_run_that_saves_nothing_has_none(tmp_path: Path) -> None:
    assert "no checkpoint was saved; set trainer.save_freq" in write_final_model(
        config(tmp_path, save_freq=-1), 4
    )


def test_a_step_that_is_not_the_last_is_not_the_final_model(saved: Path) -> None:
    assert "the last checkpoint is that of step 4, not of step 5" in write_final_model(
        config(saved), 5
    )


def test_a_disk_without_room_keeps_the_checkpoint_alone(
    saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_folder, "free_bytes", lambda folder: 99)
    assert "0.0 MB free" in write_final_model(config(saved), 4)
    assert not (saved / "final").exists()


def test_it_can_be_turned_off(saved: Path) -> None:
    line = write_final_model(config(saved, final_model=False), 4)
    assert line == "no final model: grubrics.final_model=false"


@pytest.mark.parametrize(
    ("path", "mode", "total", "step"),
    [
        ("x/global_step_4", "resume_path", 4, 4),
        ("x/global_step_2", "resume_path", 4, None),
        ("x/global_step_4", "resume_path", None, None),
        ("x/global_step_4", "auto", 4, None),
    ],
)
def test_a_run_that_is_resumed_at_its_last_step_lacks_only_its_model(
    path: str, mode: str, total: int | None, step: int | None
) -> None:
    trainer = {"resume_from_path": path, "resume_mode": mode, "total_training_steps": total}
    assert resumed_at_end({"trainer": trainer}) == step


def test_what_a_killed_process_left_of_a_folder_goes(tmp_path: Path) -> None:
    unused = next(pid for pid in range(2**22, 0, -1) if not psutil.pid_exists(pid))
    left, live = tmp_path / f".final.{unused}", tmp_path / f".final.{os.getppid()}"
    for folder in (left, tmp_path / f".final.old.{unused}", live, tmp_path / ".final.txt"):
        folder.mkdir()
    with whole_folder(tmp_path / "final"):
        pass
    assert {path.name for path in tmp_path.iterdir()} == {"final", live.name, ".final.txt"}
