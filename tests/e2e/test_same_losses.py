"""A GRPO run that lost its whole process set repeats, once resumed, what it would have done."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from engine.base import jsonl
from engine.history.train_log import read_steps
from engine.runs.processes import members, send
from engine.runs.rundir import RunDir
from engine.runs.state import observed_state, recorded_state
from engine.supervise import private_ray
from tests.e2e.project import Project
from tests.waiting import wait_for

pytestmark = pytest.mark.slow

STEPS = 4
KILLED_AFTER = 3
"""A step past the checkpoint of step 2 and before the next."""


def arguments(name: str) -> list[str]:
    return [
        "grpo_tiny",
        f"trainer.total_training_steps={STEPS}",
        "trainer.save_freq=2",
        "trainer.test_freq=4",
        f"trainer.experiment_name={name}",
        "trainer.val_before_train=false",
        "--name",
        name,
    ]


@pytest.fixture(scope="module")
def straight(tiny_world: Project, trained_sft: dict[str, Any]) -> RunDir:
    answer = tiny_world.json("launch", *arguments("straight"), "--wait", expect=(0, 1))
    assert answer["state"] == "finished", answer
    return RunDir(tiny_world.path / "runs" / "straight")


@pytest.fixture(scope="module")
def resumed(tiny_world: Project, straight: RunDir) -> RunDir:
    run = killed(tiny_world)
    tiny_world.json("reap", "--yes")
    answer = tiny_world.json("resume", run.id, "--wait", expect=(0, 1))
    assert (answer["from_step"], answer["state"]) == (2, "finished"), answer
    return run


def killed(project: Project) -> RunDir:
    """A run that is lost; one that was faster than this test makes way for another one."""
    for name in ("resumed", "resumed-2", "resumed-3"):
        project.json("launch", *arguments(name))
        run = RunDir(project.path / "runs" / name)
        wait_for_step(run, KILLED_AFTER)
        kill_everything(run)
        folder = project.path / run.read_manifest()["checkpoint_dir"]
        if observed_state(run).state == "lost" and not (folder / f"global_step_{STEPS}").exists():
            return run
    raise AssertionError("every run came to its end before it was killed")


def wait_for_step(run: RunDir, step: int) -> None:
    wait_for(lambda: any(one.step == step for one in read_steps(run.train_log)))


def kill_everything(run: RunDir) -> None:
    """As when the machine stops: the supervisor first, so that it cannot write a verdict."""
    supervisor = recorded_state(run).supervisor  # type: ignore[union-attr]
    assert supervisor is not None
    send(supervisor, signal.SIGKILL)
    for process in members(run):
        send(process, signal.SIGKILL)
    wait_for(lambda: not members(run))


def metrics(run: RunDir) -> dict[int, dict[str, float | None]]:
    """What counts of each step: the last attempt that did it."""
    return {step.step: dict(step.metrics) for step in read_steps(run.train_log)}


def rollouts(run: RunDir, step: int) -> list[tuple[str, str, float]]:
    """Prompt, completion and reward of each; verl dumps them in the order of their random ids."""
    last = max(
        (attempt.rollouts / f"{step}.jsonl" for attempt in run.attempts()),
        key=lambda path: path.stat().st_mtime if path.exists() else 0.0,
    )
    return sorted((line["input"], line["output"], line["score"]) for line in jsonl.read(last))


def test_the_rollouts_are_the_same(straight: RunDir, resumed: RunDir) -> None:
    for step in range(1, STEPS + 1):
        assert rollouts(resumed, step) == rollouts(straight, step), f"step {step}"


@pytest.mark.parametrize(
    "name",
    [
        "actor/loss",
        "actor/pg_loss",
        "actor/grad_norm",
        "actor/lr",
        "actor/entropy",
        "reward/mean",
        "reward/std",
        "response_length/mean",
    ],
)
def test_the_numbers_are_the_same_bit_by_bit(straight: RunDir, resumed: RunDir, name: str) -> None:
    expected = {step: values[name] for step, values in metrics(straight).items()}
    assert sorted(expected) == list(range(1, STEPS + 1))
    assert {step: values[name] for step, values in metrics(resumed).items()} == expected


def test_validation_is_the_same(straight: RunDir, resumed: RunDir) -> None:
    assert metrics(resumed)[4]["val/reward"] == metrics(straight)[4]["val/reward"]


def test_the_redone_step_is_told_from_the_first(resumed: RunDir) -> None:
    lines = [json.loads(line) for line in resumed.train_log.read_text().splitlines()]
    redone = [(line["step"], line["attempt"]) for line in lines if line.get("redone")]
    assert (KILLED_AFTER, 2) in redone


def test_neither_run_leaves_anything_of_ray(straight: RunDir, resumed: RunDir) -> None:
    for run in (straight, resumed):
        for attempt in run.attempts():
            recorded = (attempt.path / private_ray.RECORD).read_text().strip()
            assert not Path(recorded).exists()
