"""An SFT run that is killed and resumed trains what it would have trained undisturbed."""

from __future__ import annotations

import random
import signal

import pytest

from engine.base import jsonl
from engine.run.checkpoints.find import check_checkpoint
from engine.run.history.train_log import history, read_steps
from engine.run.processes import members, send
from engine.run.run import Run
from engine.run.state import observed_state, recorded_state
from tests.e2e.project import Project
from tests.waiting import wait_for

pytestmark = [pytest.mark.slow, pytest.mark.thorough]

STEPS, EPOCH, SAVE = 12, 4, 2
ROWS = EPOCH * 8  # of sft_tiny's batches


@pytest.fixture(scope="module")
def project(tiny_world: Project) -> Project:
    """The tiny world with so few conversations that a short run has several epochs."""
    lines = (tiny_world.path / "data/tiny/sft/train.jsonl").read_text().splitlines()[:ROWS]
    (tiny_world.path / "few.jsonl").write_text("\n".join(lines) + "\n")
    return tiny_world


def launch(project: Project, name: str, *options: str) -> Run:
    settings = [
        "data.train_file=few.jsonl",
        f"training.max_steps={STEPS}",
        f"training.save_steps={SAVE}",
        f"training.output_dir=checkpoints/{name}",
    ]
    project.json("launch", "sft_tiny", *settings, "--name", name, *options)
    return Run(project.path / "runs" / name)


def losses(run: Run) -> list[tuple[int, float | None, float | None]]:
    steps = history(read_steps(run.train_log))
    return [(s.step, s.metrics["train/loss"], s.metrics["train/grad_norm"]) for s in steps]


def kill_everything(run: Run) -> None:
    """As when the machine loses its power: no process of the run gets to say a word."""
    state = recorded_state(run)
    assert state is not None and state.supervisor is not None
    send(state.supervisor, signal.SIGKILL)
    for process in members(run):
        send(process, signal.SIGKILL)
    wait_for(lambda: not members(run))


def trained(run: Run) -> int:
    """The last step of the first attempt in verl's own file."""
    steps: list[int] = [line["step"] for line in jsonl.read(run.attempt(1).metrics)]
    return max(steps)


def wait_for_step(run: Run, step: int) -> None:
    wait_for(lambda: any(one.step == step for one in read_steps(run.train_log)))


@pytest.fixture(scope="module")
def killed(project: Project) -> Run:
    """Killed in the middle; a run that was faster than this test makes way for another one."""
    for number in range(5):
        run = launch(project, f"killed-{number}")
        wait_for_step(run, random.randint(SAVE + 1, STEPS // 2))
        kill_everything(run)
        if observed_state(run).state == "lost" and trained(run) <= STEPS - SAVE:
            return run
    raise AssertionError("every run came to its end before it was killed")


def test_another_configuration_gets_a_folder_of_its_own(project: Project, killed: Run) -> None:
    folder = f"training.output_dir=checkpoints/{killed.id}"
    done = project.run(
        "launch", "sft_tiny", "data.train_file=few.jsonl", folder, "--name", "other", "--dry-run"
    )
    assert "checkpoints go to checkpoints/other: " in done.stdout
    assert f"holds checkpoints of run '{killed.id}', which has another configuration" in done.stdout


@pytest.mark.row("H16")
def test_a_killed_and_resumed_run_ends_like_an_uninterrupted_one(
    project: Project, killed: Run
) -> None:
    whole, run = launch(project, "whole", "--wait"), killed
    last = trained(run)
    resumed = project.json("resume", run.id, "--wait")
    assert resumed["state"] == "finished"
    assert resumed["from_step"] in (last_save(last) - SAVE, last_save(last), last_save(last + 1))
    assert losses(run) == losses(whole)
    assert [step for step, _, _ in losses(run)] == list(range(1, STEPS + 1))
    assert (attempt_of(run, 1), attempt_of(run, STEPS)) == (1, 2)

    refused = project.run("resume", run.id)
    assert refused.returncode == 2
    assert f"already finished (step {STEPS} of {STEPS})" in refused.stderr

    # The end of an epoch, from where verl alone trains nothing for a whole epoch.
    resumed = project.json("resume", run.id, "--from", str(EPOCH), "--wait")
    assert (resumed["from_step"], resumed["attempt"]) == (EPOCH, 3)
    assert losses(run) == losses(whole)
    assert attempt_of(run, EPOCH + 1) == 3
    assert check_checkpoint(run).complete
    final = project.path / "checkpoints"
    weights = "final/model.safetensors"
    assert (final / run.id / weights).read_bytes() == (final / "whole" / weights).read_bytes()
    assert members(run) == []
    assert_every_attempt_kept_its_own_metrics(run)


def last_save(step: int) -> int:
    return step // SAVE * SAVE


def attempt_of(run: Run, step: int) -> int:
    (result,) = [one for one in history(read_steps(run.train_log)) if one.step == step]
    return result.attempt


def assert_every_attempt_kept_its_own_metrics(run: Run) -> None:
    steps = [[line["step"] for line in jsonl.read(a.metrics)] for a in run.attempts()]
    assert steps[0][0] == 1
    assert steps[2] == list(range(EPOCH + 1, STEPS + 1))
