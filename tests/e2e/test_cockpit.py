"""The real program in a real terminal: checks, launch, live, quit, reopen, home, log entry."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.base import jsonl
from engine.base.quantities import format_fixed
from engine.run.processes import members
from engine.run.run import Run, run_ids
from engine.run.state import observed_state
from tests.e2e.project import CLI, Project, make_project
from tests.e2e.terminal import Terminal

pytestmark = pytest.mark.slow

STEPS = 6
SIZES = [
    pytest.param((120, 40), id="120x40"),
    pytest.param((80, 24), id="80x24", marks=pytest.mark.thorough),
]


@pytest.fixture(params=SIZES)
def size(request: pytest.FixtureRequest) -> tuple[int, int]:
    chosen: tuple[int, int] = request.param
    return chosen


@pytest.fixture
def project(tiny_world: Project, trained_sft: dict[str, Any], tmp_path: Path) -> Project:
    """A project with data and an SFT checkpoint, whose config grpo_tiny has few steps."""
    made = make_project(tmp_path)
    for name in ("data", "checkpoints"):
        (tmp_path / name).symlink_to(tiny_world.path / name)
    config = tmp_path / "configs" / "grpo_tiny.yaml"
    text = re.sub(
        r"total_training_steps: \d+", f"total_training_steps: {STEPS}", config.read_text()
    )
    text = text.replace("experiment_name: grpo-tiny", f"experiment_name: {tmp_path.name}")
    config.write_text(text.replace("val_before_train: true", "val_before_train: false"))
    return made


@pytest.fixture
def cockpit(project: Project, size: tuple[int, int]) -> Iterator[Terminal]:
    terminal = Terminal(CLI, project.path, project.env, *size)
    yield terminal
    terminal.close()


def the_run(project: Project) -> Run:
    (name,) = run_ids(project.path / "runs")
    return Run(project.path / "runs" / name)


def logged_step(run: Run, step: int) -> dict[str, float]:
    """The metrics that the file holds for a step."""
    metrics: dict[str, float]
    (metrics,) = [line["metrics"] for line in jsonl.read(run.train_log) if line["step"] == step]
    return metrics


def test_from_preflight_to_log_entry(
    project: Project, cockpit: Terminal, size: tuple[int, int]
) -> None:
    # Another run on this machine is a warning.
    cockpit.wait_for(r"ok, \d+ warnings?, 0 failed, \d+ skipped")
    cockpit.wait_for(r"Press l to")

    cockpit.press("l")
    cockpit.wait_for(r"engine\.train\.grpo")
    cockpit.wait_for(rf"steps\s+{STEPS}")

    cockpit.press("\r")
    cockpit.wait_for(rf"step [1-9]\d*/{STEPS}")
    cockpit.wait_for(r"reward \S+ ± \S+")
    run = the_run(project)

    cockpit.press("q")
    assert cockpit.wait_for_exit() == 0
    ended = observed_state(run).went_well
    assert ended or members(run) != [], "quitting the screen ended the run"

    again = Terminal(CLI, project.path, project.env, *size)
    try:
        again.wait_for(rf"{STEPS}/{STEPS}")
        again.press("\r")
        again.wait_for(re.escape(run.id))
        again.wait_for(r"e (log )?entry")
        again.wait_for(rf"finished(.*\n)*.*step {STEPS}/{STEPS}")
        last = logged_step(run, STEPS)
        expected = (
            f"reward {format_fixed(last['reward/mean'])} ± {format_fixed(last['reward/std'])}"
        )
        again.wait_for(re.escape(expected))

        again.press("e")
        again.wait_for(r"Research question")
        again.press(*"Does it learn?")
        again.press("\x13")
        again.wait_for(r"appended to")
    finally:
        again.close()
    entry = (project.path / "docs" / "experiment-log.md").read_text()
    assert "Does it learn?" in entry
    assert run.id in entry
    assert members(run) == []
