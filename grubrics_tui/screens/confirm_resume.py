"""The question before a run goes on from a checkpoint."""

from __future__ import annotations

from textual import on, work
from textual.message import Message

from engine.errors import UsageError
from engine.runs.rundir import RunDir
from engine.runs.state import RunState
from grubrics_tui.screens.confirm import Answer, Confirm


class ConfirmResume(Confirm):
    """Looks for the checkpoint first; answers with its step, 0 for the start."""

    class Found(Message):
        def __init__(self, step: int) -> None:
            super().__init__()
            self.step = step

    class Refused(Message):
        def __init__(self, reason: str) -> None:
            super().__init__()
            self.reason = reason

    def __init__(self, run: RunDir, state: RunState) -> None:
        super().__init__("resume the run?", "Looking for its last checkpoint ...", (), "leave it")
        self._run, self._state = run, state
        self._step = 0

    def on_mount(self) -> None:
        self._look()

    def answer(self, key: str) -> str:
        return str(self._step)

    @work(thread=True, exit_on_error=False)
    def _look(self) -> None:
        from engine.launch.resume import resume_step

        try:
            self.post_message(self.Found(resume_step(self._run)))
        except (UsageError, OSError) as error:
            self.post_message(self.Refused(str(error)))

    @on(Found)
    def _ask(self, message: Found) -> None:
        self._step, state = message.step, self._state
        end = "" if state.total_steps is None else f" of {state.total_steps}"
        start = f"from the checkpoint of step {self._step}{end}" if self._step else "from the start"
        text = f"{self._run.id} goes on {start}, as attempt {state.attempt + 1} of the same run."
        again = (state.step or 0) - self._step
        cost = f"{again} logged step{'' if again == 1 else 's'} done again" if again > 0 else ""
        self.ask(text, [Answer("y", "resume", cost)])

    @on(Refused)
    def _refuse(self, message: Refused) -> None:
        self.ask(f"It cannot be resumed: {message.reason}", ())
