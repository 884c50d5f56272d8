"""What the question before a stop offers."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from engine.base import jsonl
from engine.run.run import Run
from engine.run.state import RunState, write_state
from grubrics_tui.screens.dialogs.change_runs import stop_question, with_waiting_runs


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
