"""The name under which W&B shows a run."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from engine.config.places import wandb_name
from tests.engine.checks.project import Project, make_project

AT = time.mktime((2026, 1, 2, 3, 4, 5, 0, 0, -1))


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.chdir(tmp_path)
    return make_project(tmp_path)


@pytest.mark.row("V13")
def test_it_has_model_time_batch_and_length(project: Project) -> None:
    model = "actor_rollout_ref.model.path=some org/Qwen3 4B"
    sizes = ["data.train_batch_size=4", "data.max_response_length=64"]
    config = project.config("grpo", model, *sizes)
    assert wandb_name(config, AT) == "Qwen3-4B-20260102-030405-b4-l64"


def test_a_final_model_is_called_by_the_folder_of_its_run(project: Project) -> None:
    config = project.config("grpo", "actor_rollout_ref.model.path=checkpoints/p/sft-tiny/final/")
    assert wandb_name(config, AT).startswith("sft-tiny-20260102-")


def test_an_sft_run_has_the_length_of_its_conversations(project: Project) -> None:
    config = project.config("sft", "data.max_seq_length=128")
    assert wandb_name(config, AT).endswith("-l128")


def test_a_name_that_is_given_with_the_launch_stays(project: Project) -> None:
    config = project.config("grpo", "trainer.experiment_name=lr/high")
    assert wandb_name(config, AT) == "lr-high"


@pytest.mark.parametrize("model", ["///", "..", "a\\b:c?", "é"])
def test_every_character_is_safe(project: Project, model: str) -> None:
    name = wandb_name(project.config("grpo", f"actor_rollout_ref.model.path='{model}'"), AT)
    assert re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._-]*", name)
