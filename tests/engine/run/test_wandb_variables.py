"""What a run hands to W&B by environment variables."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.base import jsonl
from engine.run.run import Run
from engine.supervise.trainer import wandb_variables


def make_run(root: Path, run_id: str, **wandb: str) -> Run:
    run = Run(root / run_id)
    run.path.mkdir(parents=True)
    jsonl.write_json(run.manifest_file, {"v": 1, "id": run_id, "kind": "grpo", "wandb": wandb})
    return run


@pytest.mark.row("V16")
def test_two_runs_never_share_a_folder_or_an_id(tmp_path: Path) -> None:
    first, second = (wandb_variables(make_run(tmp_path, name), {}) for name in ("a", "b"))
    for name in ("WANDB_DIR", "WANDB_RUN_ID"):
        assert first[name] != second[name]
    assert first["WANDB_DIR"] == str(tmp_path / "a")


@pytest.mark.row("V31")
def test_name_group_and_tags_of_the_run_are_those_of_w_and_b(tmp_path: Path) -> None:
    run = make_run(tmp_path, "a", name="Qwen3-b4", group="ablation")
    jsonl.write_json(run.notes_file, {"tags": ["baseline", "lr"], "text": ""})
    variables = wandb_variables(run, {})
    assert variables["WANDB_NAME"] == "Qwen3-b4"
    assert variables["WANDB_RUN_GROUP"] == "ablation"
    assert variables["WANDB_TAGS"] == "baseline,lr"


def test_a_variable_of_the_user_stays(tmp_path: Path) -> None:
    own = {"WANDB_DIR": "/data/wandb", "WANDB_NAME": "mine", "WANDB_FINISH_TIMEOUT": "9"}
    assert not wandb_variables(make_run(tmp_path, "a", name="n"), own).keys() & own.keys()


def test_a_run_without_a_recorded_name_has_none(tmp_path: Path) -> None:
    assert "WANDB_NAME" not in wandb_variables(make_run(tmp_path, "a"), {})
