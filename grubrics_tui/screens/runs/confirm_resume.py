"""The question before runs are resumed from a checkpoint."""

from __future__ import annotations

from collections.abc import Sequence

from textual import on, work
from textual.message import Message

from engine.base.errors import UsageError
from engine.runs.rundir import RunDir
from engine.runs.state import RunState
from grubrics_tui.screens.dialogs.confirm import Answer, Confirm


class ConfirmResume(Confirm):
    """Looks for the checkpoints first; ``steps`` then says where each run resumes, 0: the start.

    One run that cannot be resumed keeps all of them as they are.
    """

    class Found(Message):
        def __init__(self, steps: Sequence[int]) -> None:
            super().__init__()
            self.steps = steps

    class Refused(Message):
        def __init__(self, reason: str) -> None:
            super().__init__()
            self.reason = reason

    def __init__(self, runs: Sequence[tuple[RunDir, RunState]]) -> None:
        title = "resume the run?" if len(runs) == 1 else f"resume {len(runs)} runs?"
        super().__init__(title, "Looking for the last checkpoint ...", (), "change nothing")
        self._runs = runs
        self.steps: Sequence[int] = ()

    def on_mount(self) -> None:
        self._look()

    @work(thread=True, exit_on_error=False)
    def _look(self) -> None:
        from engine.launch.resume import resume_step

        steps = []
        for run, _ in self._runs:
            try:
                steps.append(resume_step(run))
            except (UsageError, OSError) as error:
                self.post_message(self.Refused(f"{run.id} cannot be resumed: {error}"))
                return
        self.post_message(self.Found(steps))

    @on(Found)
    def _ask(self, message: Found) -> None:
        self.steps = message.steps
        pairs = [(*pair, step) for pair, step in zip(self._runs, self.steps, strict=True)]
        lines = [_line(run, state, step) for run, state, step in pairs]
        if len(pairs) > 1:
            lines.append("They start at once and share the GPUs and the memory.")
        again = sum(max(0, (state.step or 0) - step) for _, state, step in pairs)
        cost = f"{again} logged step{'' if again == 1 else 's'} done again" if again else ""
        self.ask("\n".join(lines), [Answer("y", "resume", cost)])

    @on(Refused)
    def _refuse(self, message: Refused) -> None:
        self.ask(message.reason, ())


def _line(run: RunDir, state: RunState, step: int) -> str:
    end = "" if state.total_steps is None else f" of {state.total_steps}"
    start = f"from the checkpoint of step {step}{end}" if step else "from the start"
    return f"{run.id} resumes {start}, as attempt {state.attempt + 1} of the same run."
