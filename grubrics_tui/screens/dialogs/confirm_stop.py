"""The question before runs are stopped."""

from __future__ import annotations

from collections.abc import Sequence

from engine.runs.columns import format_step
from engine.runs.requests import ask_stop
from engine.runs.rundir import RunDir
from engine.runs.state import RunState
from grubrics_tui.screens.dialogs.confirm import Answer, Confirm

_AFTER_CHECKPOINT = "a"
_ANSWERS = (
    Answer("y", "stop now", "steps since the last checkpoint are lost"),
    Answer(_AFTER_CHECKPOINT, "stop after the next checkpoint", "nothing is lost"),
)

_OF_STALLED = (
    _ANSWERS[0],
    Answer(
        _AFTER_CHECKPOINT, "stop after the next checkpoint", "a stalled run may never reach one"
    ),
)


class ConfirmStop(Confirm):
    """Asks the supervisors only after a "y" or an "a"; answers what was asked for, in words."""

    def __init__(self, runs: Sequence[tuple[RunDir, RunState]]) -> None:
        one = len(runs) == 1
        title = "stop the run?" if one else f"stop {len(runs)} runs?"
        text = "\n".join(_line(run, state) for run, state in runs)
        stalled = any(state.state == "stalled" for _, state in runs)
        answers = _OF_STALLED if stalled else _ANSWERS
        super().__init__(title, text, answers, "let it run" if one else "let them run")
        self._runs = [run for run, _ in runs]

    def answer(self, key: str) -> str:
        after = key == _AFTER_CHECKPOINT
        for run in self._runs:
            ask_stop(run, after_checkpoint=after)
        names = ", ".join(run.id for run in self._runs)
        return f"Asked {names} to stop {'after the next checkpoint' if after else 'now'}."


def _line(run: RunDir, state: RunState) -> str:
    step = format_step(state.step, state.total_steps)
    return f"{run.id} is {state.state}, {step if state.total_steps == 0 else f'step {step}'}."
