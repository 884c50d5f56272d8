"""What can be resumed, and what is refused."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from engine import jsonl
from engine.errors import UsageError
from engine.launch.resume import resume
from engine.records.checkpoints import complete_steps
from engine.runs.processes import identify
from engine.runs.rundir import RunDir
from engine.runs.state import RunState, write_state


@pytest.fixture
def run(tmp_path: Path) -> RunDir:
    made = RunDir(tmp_path / "runs" / "mine")
    made.path.mkdir(parents=True)
    jsonl.write_json(
        made.manifest,
        {
            "v": 1,
            "id": "mine",
            "kind": "grpo",
            "cwd": str(tmp_path),
            "checkpoint_dir": "checkpoints",
            "created": 0.0,
            "argv": ["true"],
            "attempts": [{"number": 1, "argv": ["true"]}],
        },
    )
    write_state(made, RunState("failed"))
    return made


def save(folder: Path, step: int, *, whole: bool = True) -> None:
    """A checkpoint as verl writes it, up to the tracker that comes last."""
    actor = folder / f"global_step_{step}" / "actor"
    actor.mkdir(parents=True)
    for kind in ("model", "optim", "extra_state"):
        (actor / f"{kind}_world_size_1_rank_0.pt").write_bytes(b"x")
    if whole:
        (actor.parent / "data.pt").write_bytes(b"x")
        (folder / "latest_checkpointed_iteration.txt").write_text(str(step))


def test_a_half_written_checkpoint_is_none(tmp_path: Path) -> None:
    save(tmp_path, 2)
    save(tmp_path, 4, whole=False)
    assert set(complete_steps(tmp_path)) == {2}


def test_a_checkpoint_of_an_earlier_run_is_none(tmp_path: Path) -> None:
    save(tmp_path, 2)
    assert complete_steps(tmp_path, since=2**40) == {}


def test_a_run_that_goes_on_cannot_be_resumed(run: RunDir) -> None:
    write_state(run, RunState("running", supervisor=identify(os.getpid())))
    with pytest.raises(UsageError, match="run 'mine' goes on"):
        resume(run)


def test_without_a_complete_checkpoint_nothing_changes(run: RunDir) -> None:
    before = run.manifest.read_text()
    with pytest.raises(UsageError, match="holds no complete checkpoint"):
        resume(run)
    assert run.manifest.read_text() == before
    assert run.attempts() == []


def test_a_step_without_a_checkpoint_names_those_there_are(run: RunDir, tmp_path: Path) -> None:
    for step in (2, 4):
        save(tmp_path / "checkpoints", step)
    with pytest.raises(UsageError, match="no complete checkpoint of step 3; there are 2, 4"):
        resume(run, from_step=3)


def test_a_step_that_was_saved_but_not_logged_is_done_again(run: RunDir, tmp_path: Path) -> None:
    for step in (2, 4):
        save(tmp_path / "checkpoints", step)
    for step in (1, 2, 3):
        jsonl.append(run.train_log, {"v": 1, "step": step, "metrics": {}})
    assert resume(run) == 2
