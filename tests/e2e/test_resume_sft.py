"""An SFT run that is killed and resumed trains what it would have trained undisturbed."""

from __future__ import annotations

import random
import signal

import pytest

from engine import jsonl
from engine.records.checkpoints import check_checkpoint
from engine.runs.processes import members, send
from engine.runs.rundir import RunDir
from engine.runs.state import observed_state, recorded_state
from engine.watch.train_log import history, read_steps
from tests.e2e.project import Project
from tests.waiting import wait_for

pytestmark = pytest.mark.slow

STEPS, EPOCH, SAVE = 12, 4, 2
ROWS = EPOCH * 8  # of sft_tiny's batches


@pytest.fixture(scope="module")
def project(tiny_world: Project) -> Project:
    """The tiny world with so few conversations that a short run has several epochs."""
    lines = (tiny_world.path / "data/tiny/sft/train.jsonl").read_text().splitlines()[:ROWS]
    (tiny_world.path / "few.jsonl").write_text("\n".join(lines) + "\n")
    return tiny_world


def launch(project: Project, name: str, *options: str) -> RunDir:
    settings = [
        "data.train_file=few.jsonl",
        f"training.max_steps={STEPS}",
        f"training.save_steps={SAVE}",
        f"training.output_dir=checkpoints/{name}",
    ]
    project.json("launch", "sft_tiny", *settings, "--name", name, *options)
    return RunDir(project.path / "runs" / name)


def losses(run: RunDir) -> list[tuple[int, float | None, float | None]]:
    steps = history(read_steps(run.train_log))
    return [(s.step, s.metrics["train/loss"], s.metrics["train/grad_norm"]) for s in steps]


def kill_everything(run: RunDir) -> None:
    """As when the machine loses its power: no process of the run gets to say a word."""
    state = recorded_state(run)
    assert state is not None and state.supervisor is not None
    send(state.supervisor, signal.SIGKILL)
    for process in members(run):
        send(process, signal.SIGKILL)
    wait_for(lambda: not members(run))


def test_a_killed_run_ends_as_if_nothing_had_happened(project: Project) -> None:
    whole = launch(project, "whole", "--wait")
    run = launch(project, "killed")
    moment = random.randint(SAVE + 1, STEPS - 2)
    wait_for(lambda: any(step.step == moment for step in read_steps(run.train_log)))
    kill_everything(run)
    assert observed_state(run).state == "lost"

    resumed = project.json("resume", run.id, "--wait")
    assert resumed["state"] == "finished"
    assert resumed["from_step"] in (last_save(moment) - SAVE, last_save(moment), last_save(STEPS))
    assert losses(run) == losses(whole)
    assert [step for step, _, _ in losses(run)] == list(range(1, STEPS + 1))
    assert (attempt_of(run, 1), attempt_of(run, STEPS)) == (1, 2)

    refused = project.run("resume", run.id)
    assert refused.returncode == 2
    assert f"finished at step {STEPS} of {STEPS}; nothing left to do" in refused.stderr

    # The end of an epoch, from where verl alone trains nothing for a whole epoch.
    resumed = project.json("resume", run.id, "--from", str(EPOCH), "--wait")
    assert (resumed["from_step"], resumed["attempt"]) == (EPOCH, 3)
    assert losses(run) == losses(whole)
    assert attempt_of(run, EPOCH + 1) == 3
    assert check_checkpoint(run).complete
    final = project.path / "checkpoints"
    weights = "final/model.safetensors"
    assert (final / "killed" / weights).read_bytes() == (final / "whole" / weights).read_bytes()
    assert members(run) == []


def last_save(step: int) -> int:
    return step // SAVE * SAVE


def attempt_of(run: RunDir, step: int) -> int:
    (found,) = [one for one in history(read_steps(run.train_log)) if one.step == step]
    return found.attempt


def test_every_attempt_keeps_its_own_metrics(project: Project) -> None:
    run = RunDir(project.path / "runs" / "killed")
    steps = [[line["step"] for line in jsonl.read(a.metrics)] for a in run.attempts()]
    assert steps[0][0] == 1
    assert steps[2] == list(range(EPOCH + 1, STEPS + 1))


def test_another_configuration_does_not_get_the_folder(project: Project) -> None:
    done = project.run(
        "launch", "sft_tiny", "data.train_file=few.jsonl", "training.output_dir=checkpoints/killed"
    )
    assert done.returncode == 2
    (line,) = done.stderr.strip().splitlines()
    assert "holds checkpoints of run 'killed', which has another configuration" in line
    assert "grubrics-tui resume killed, or training.output_dir=checkpoints/killed-2" in line
