"""The question before a run is stopped."""

from __future__ import annotations

from engine.runs.requests import ask_stop
from engine.runs.rundir import RunDir
from engine.runs.state import RunState
from grubrics_tui.formats import step_of
from grubrics_tui.screens.confirm import Answer, Confirm

_AFTER_CHECKPOINT = "a"
_ANSWERS = (
    Answer("y", "stop now", "steps since the last checkpoint are lost"),
    Answer(_AFTER_CHECKPOINT, "stop after the next checkpoint", "nothing is lost"),
)


class ConfirmStop(Confirm):
    """Asks the supervisor only after a "y" or an "a"; answers what was asked for, in words."""

    def __init__(self, run: RunDir, state: RunState) -> None:
        step = step_of(state.step, state.total_steps)
        text = f"{run.id} is {state.state}, step {step}."
        super().__init__("stop the run?", text, _ANSWERS, "let it run")
        self._run = run

    def answer(self, key: str) -> str:
        after = key == _AFTER_CHECKPOINT
        ask_stop(self._run, after_checkpoint=after)
        return f"Asked {self._run.id} to stop {'after its next checkpoint' if after else 'now'}."
