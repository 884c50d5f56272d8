"""A stalled run promises nothing that it may not keep."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.run.run import Run
from engine.run.state import RunState
from grubrics_tui.drawing.run_head import elapsed
from grubrics_tui.screens.dialogs.change_runs import stop_question


@pytest.mark.parametrize(("state", "promised"), [("running", True), ("stalled", False)])
def test_an_end_is_estimated_only_while_steps_come(state: str, promised: bool) -> None:
    row = elapsed(RunState(state, started=1.0), 12.0)  # type: ignore[arg-type]
    assert any("ETA" in span.text for span in row) == promised


@pytest.mark.parametrize(("state", "promised"), [("running", True), ("stalled", False)])
def test_stopping_after_a_checkpoint_is_offered_only_while_steps_come(
    state: str, promised: bool
) -> None:
    question = stop_question([(Run(Path("runs/one")), RunState(state))])  # type: ignore[arg-type]
    labels = [answer.label for answer in question.answers]
    assert labels[0] == "stop now"
    assert ("stop after the next checkpoint" in labels) == promised
