"""An ablation through the command line: four SFT runs, two killed processes, one table."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from statistics import fmean
from typing import Any

import psutil
import pytest

from engine.base import jsonl
from engine.measure.ablations.runner import is_running
from engine.run.processes import alive
from engine.run.run import Run
from engine.run.state import observed_state
from tests.e2e.guide import guide_commands
from tests.e2e.project import Project
from tests.waiting import TRAINING_PATIENCE_S, wait_for

pytestmark = [pytest.mark.slow, pytest.mark.thorough]

BASE = (
    "sft_tiny",
    "data.val_file=data/tiny/sft/val.jsonl",
    "training.per_device_train_batch_size=2",
)
ARMS = ("--knob", "grubrics.description=again", "--allow-equal", "--seeds", "2")
COMMAND = ("ablate", *BASE, *ARMS, "--steps", "2")
COMPARING = ("ablate", "decide")
"""Commands of docs/evaluation.md that are run here; the others are run in test_training.py."""


@pytest.fixture(scope="module")
def project(tiny_world: Project) -> Project:
    train = tiny_world.path / "data" / "tiny" / "sft" / "train.jsonl"
    lines = train.read_text().splitlines(keepends=True)
    (train.parent / "val.jsonl").write_text("".join(lines[:8]))
    train.write_text("".join(lines[8:]))
    return tiny_world


@pytest.fixture(scope="module")
def answer(project: Project) -> Iterator[dict[str, Any]]:
    """The answer once all runs have ended. On the way the runner and a supervisor are killed."""
    started = project.json(*COMMAND)
    folder = project.path / started["dir"]
    plan = (folder / "plan.json").read_bytes()
    first = Run(project.path / "runs" / f"{started['ablation']}-base-s{started['seeds'][0]}")
    wait_for(lambda: observed_state(first).state == "running", TRAINING_PATIENCE_S)
    kill_runner(folder)
    supervisor = observed_state(first).supervisor
    assert supervisor is not None
    os.kill(supervisor.pid, signal.SIGKILL)
    wait_for(lambda: not alive(supervisor), TRAINING_PATIENCE_S)
    yield project.json(*COMMAND, "--wait")
    assert (folder / "plan.json").read_bytes() == plan
    assert not is_running(folder)


def kill_runner(folder: Path) -> None:
    """Kill the process that holds the lock of the ablation."""
    lock = folder / "lock"
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if str(lock) in {file.path for file in process.open_files()}:
                process.kill()
    wait_for(lambda: not is_running(folder), TRAINING_PATIENCE_S)


def test_every_arm_ends_with_every_seed(answer: dict[str, Any]) -> None:
    states = [state for arm in answer["arms"] for state in arm["states"].values()]
    assert states == ["finished"] * 4


def test_no_finished_run_is_repeated(project: Project, answer: dict[str, Any]) -> None:
    started = [Run(path) for path in (project.path / "runs").glob(f"{answer['ablation']}-*")]
    assert sum(observed_state(run).state == "finished" for run in started) == 4


def test_the_killed_run_trains_no_longer_beside_its_next_attempt(
    project: Project, answer: dict[str, Any]
) -> None:
    lines = (project.path / answer["dir"] / "runner.log").read_text()
    assert "still has processes" not in lines


def test_the_same_config_as_two_arms_is_identical(answer: dict[str, Any]) -> None:
    same = answer["arms"][1]
    assert (same["difference"], same["verdict"]) == (0.0, "identical")


def test_the_means_are_those_of_the_training_logs(project: Project, answer: dict[str, Any]) -> None:
    for arm in answer["arms"]:
        losses = [last_loss(project.path / "runs" / run) for run in arm["runs"]]
        assert arm["mean"] == pytest.approx(fmean(losses))


def last_loss(run: Path) -> float:
    losses = [line["metrics"].get("val/loss") for line in jsonl.read(run / "train_log.jsonl")]
    return float([loss for loss in losses if loss is not None][-1])


def test_started_again_it_prints_the_table_and_trains_nothing(
    project: Project, answer: dict[str, Any]
) -> None:
    runs = sorted(path.name for path in (project.path / "runs").iterdir())
    assert project.json("ablate", answer["ablation"], "--dry-run")["arms"] == answer["arms"]
    assert project.json(*COMMAND, "--wait")["arms"] == answer["arms"]
    assert sorted(path.name for path in (project.path / "runs").iterdir()) == runs


@pytest.mark.parametrize("command", guide_commands(*COMPARING), ids=" ".join)
def test_the_commands_of_the_guide_compare_variants(
    project: Project, answer: dict[str, Any], command: list[str]
) -> None:
    """As they are written, with two exceptions: this file's ablation is the one that is named, and
    the guide's own, of nine GRPO runs, is planned and not started."""
    words = [answer["ablation"] if is_id(word) else word for word in command]
    if command[:2] == ["ablate", "grpo_tiny"] and "--dry-run" not in command:
        words.append("--dry-run")
    result = project.run(*words)
    assert result.returncode == 0, result.stderr


def is_id(word: str) -> bool:
    return re.fullmatch(r"grpo_tiny-[0-9a-f]{6}", word) is not None
