"""``smoke-test`` and ``reproduce`` on the tiny world: small runs that really train.

``test_secrets.py`` reproduces a run whose judge refuses the key.
"""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest

from engine.run.history.train_log import read_steps
from engine.run.processes import send
from engine.run.run import Run
from engine.run.state import observed_state
from tests.e2e.project import Project
from tests.waiting import wait_for

pytestmark = [pytest.mark.slow, pytest.mark.thorough]


@pytest.fixture(scope="module")
def project(tiny_world: Project, trained_sft: dict[str, Any]) -> Project:
    """The tiny world with a model that GRPO can start from."""
    assert trained_sft["state"] == "finished", trained_sft
    return tiny_world


@pytest.fixture(scope="module")
def checked(project: Project) -> dict[str, Any]:
    answer: dict[str, Any] = project.json("smoke-test", "grpo_tiny", expect=(0, 1))
    return answer


def test_a_sound_config_passes_the_four_checks_of_the_smoke_test(checked: dict[str, Any]) -> None:
    assert checked["state"] == "finished", checked
    assert [tick["passed"] for tick in checked["ticks"]] == [True] * 4, checked["ticks"]
    assert checked["ok"]


def test_a_checkpoint_is_as_large_as_was_estimated(
    project: Project, checked: dict[str, Any]
) -> None:
    folder = project.path / "checkpoints/smoke-test" / checked["run"] / "global_step_10"
    measured = _bytes(folder)
    estimated = project.json("estimate", "grpo_tiny")["checkpoint"]
    assert estimated["bytes"] == pytest.approx(measured, rel=0.05)
    parts = {part["name"]: part["bytes"] for part in estimated["parts"]}
    for name in ("model", "optim"):
        (file,) = (folder / "actor").glob(f"{name}_*.pt")
        assert parts[name] == pytest.approx(file.stat().st_size, rel=0.02)


@pytest.mark.thorough
def test_a_run_that_the_system_killed_passes_in_small(project: Project) -> None:
    """As the kernel does when memory is short: what was shrunk is to blame."""
    project.json("launch", "grpo_tiny", *_small("large")[:-1], "trainer.total_training_steps=50")
    run = Run(project.path / "runs" / "large")
    wait_for(lambda: any(read_steps(run.train_log)), 180)
    trainer = observed_state(run).trainer
    assert trainer is not None and send(trainer, signal.SIGKILL)
    wait_for(lambda: observed_state(run).has_ended)
    repro = project.json("reproduce", "large")
    assert repro["verdict"]["outcome"] == "production config", repro["verdict"]
    assert "job_cancelled_or_interrupted" in repro["verdict"]["text"]
    assert project.json("show", repro["run"])["step"] == 5


def _small(name: str) -> tuple[str, ...]:
    return (
        "trainer.total_training_steps=2", "trainer.val_before_train=false",
        f"trainer.experiment_name={name}", "--name", name, "--wait",
    )  # fmt: skip


def _bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
