"""What the question before a stop offers."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.base import jsonl
from engine.runs.rundir import RunDir
from engine.runs.state import RunState
from grubrics_tui.screens.dialogs.stop import stop_question


@pytest.mark.parametrize(("kind", "offered"), [("grpo", [False, True]), ("command", [False])])
def test_a_stop_after_the_next_checkpoint_is_offered_where_checkpoints_are_known(
    tmp_path: Path, kind: str, offered: list[bool]
) -> None:
    jsonl.write_json(tmp_path / "manifest.json", {"v": 1, "kind": kind})
    question = stop_question([(RunDir(tmp_path), RunState("running"))])
    assert [answer.value for answer in question.answers] == offered


def test_a_command_has_no_checkpoints_to_lose_steps_after(tmp_path: Path) -> None:
    jsonl.write_json(tmp_path / "manifest.json", {"v": 1, "kind": "command"})
    question = stop_question([(RunDir(tmp_path), RunState("running", step=7))])
    assert question.text.endswith("is running, step 7.")
    assert [answer.consequence for answer in question.answers] == ["ends all of its processes"]
