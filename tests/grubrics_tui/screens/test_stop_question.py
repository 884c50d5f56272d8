"""What the question before a stop offers."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from engine.base import jsonl
from engine.base.typed import to_json
from engine.run.checkpoints.ownership import STAMP, Stamp
from engine.run.run import Run
from engine.run.state import RunState, write_state
from grubrics_tui.screens.dialogs.change_runs import (
    stop_question,
    with_checkpoints,
    with_waiting_runs,
)
from tests.engine.run.checkpoints.checkpoint_files import save


@pytest.mark.parametrize(("kind", "offered"), [("grpo", [False, True]), ("command", [False])])
def test_a_stop_after_the_next_checkpoint_is_offered_where_checkpoints_are_known(
    tmp_path: Path, kind: str, offered: list[bool]
) -> None:
    jsonl.write_json(tmp_path / "manifest.json", {"v": 1, "kind": kind})
    question = stop_question([(Run(tmp_path), RunState("running"))])
    assert [answer.value for answer in question.answers] == offered


def test_a_command_has_no_checkpoints_to_lose_steps_after(tmp_path: Path) -> None:
    jsonl.write_json(tmp_path / "manifest.json", {"v": 1, "kind": "command"})
    question = stop_question([(Run(tmp_path), RunState("running", step=7))])
    assert question.text.endswith("is running, step 7.")
    assert [answer.consequence for answer in question.answers] == ["ends all of its processes"]


@pytest.mark.parametrize(
    ("saved", "text", "loss"),
    [
        ([], "It has no checkpoint yet.", "loses all 9 steps"),
        ([4, 6], "Its last checkpoint: step 6.", "loses 3 steps"),
    ],
)
def test_a_stop_names_the_steps_that_it_loses_and_the_next_checkpoint(
    tmp_path: Path, saved: list[int], text: str, loss: str
) -> None:
    runs = [(saving(tmp_path, "day", saved), RunState("running", step=9, total_steps=60))]
    question = with_checkpoints(stop_question(runs), runs)
    assert question.text == f"day is running, step 9/60. {text}"
    now, later = question.answers
    assert now.consequence == loss
    assert later.label == "stop after the checkpoint of step 30"


def test_the_losses_of_several_runs_are_added(tmp_path: Path) -> None:
    state = RunState("running", step=9, total_steps=60)
    runs = [(saving(tmp_path, name, saved), state) for name, saved in (("day", []), ("eve", [6]))]
    question = with_checkpoints(stop_question(runs), runs)
    assert question.answers[0].consequence == "loses 12 steps"
    assert question.answers[1].label == "stop after the next checkpoint"
    assert question.text.count("It would stop after the checkpoint of step 30.") == 2


def test_nothing_is_said_of_a_folder_that_is_not_marked_as_that_of_the_run(tmp_path: Path) -> None:
    run = saving(tmp_path, "day", [])
    (tmp_path / "day-saved" / STAMP).unlink()
    runs = [(run, RunState("running", step=9))]
    question = with_checkpoints(stop_question(runs), runs)
    assert question.text == "day is running, step 9."
    assert question.answers[0].consequence == "loses the steps after the last checkpoint"


def saving(root: Path, name: str, steps: list[int]) -> Run:
    """A run that saves every 30 steps, with the checkpoints of these steps."""
    folder = root / f"{name}-saved"
    folder.mkdir()
    config = {"trainer.save_freq": {"value": 30}}
    run = active(root, name, created=1.0, checkpoint_dir=str(folder), config=config)
    for step in steps:
        save(folder, step)
    jsonl.write_json(folder / STAMP, to_json(Stamp.of(run, run.read_manifest())))
    return run


def test_runs_that_wait_for_a_stopped_one_are_named(tmp_path: Path) -> None:
    write_state(active(tmp_path, "day"), RunState("running", heartbeat=time.time()))
    for name, after in (("night", "day"), ("later", "night"), ("other", None)):
        queue = {"after": after, "turn": after is None}
        run = active(tmp_path, name, queue=queue)
        write_state(run, RunState("queued", heartbeat=time.time()))
    day = Run(tmp_path / "day")
    question = with_waiting_runs(stop_question([(day, RunState("running"))]), [day])
    assert question.text.endswith("\n\nlater, night wait for it, and fail if it is stopped.")


def active(root: Path, name: str, **manifest: object) -> Run:
    run = Run(root / name)
    run.path.mkdir()
    jsonl.write_json(run.manifest_file, {"v": 1, "id": name, "kind": "grpo", **manifest})
    return run
