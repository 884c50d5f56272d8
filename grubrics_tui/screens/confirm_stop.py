"""The question before a run is stopped."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from engine.runs.requests import ask_stop
from engine.runs.rundir import RunDir
from engine.runs.state import RunState
from grubrics_tui.formats import step_of

_CHOICES = (
    ("y", "stop now", "steps since the last checkpoint are lost"),
    ("a", "stop after the next checkpoint", "nothing is lost"),
    ("n", "let it run", ""),
)


class ConfirmStop(ModalScreen[str]):
    """Asks the supervisor only after a "y" or an "a"; answers what was asked for, in words.

    Enter does nothing: a run of hours is not ended by a key that was meant for something else.
    """

    DEFAULT_CSS = """
    ConfirmStop {
        align: center middle;
        & > Vertical {
            width: 76; max-width: 95%; height: auto; padding: 1 2;
            background: $panel; border: round $warning; border-title-color: $warning;
        }
    }
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "stop", "stop now"),
        Binding("a", "stop_after_checkpoint", "stop after the next checkpoint"),
        Binding("n,escape,q", "leave", "let it run"),
    ]

    def __init__(self, run: RunDir, state: RunState) -> None:
        super().__init__()
        self._run, self._state = run, state

    def compose(self) -> ComposeResult:
        box = Vertical(Static(self._question(), markup=False))
        box.border_title = "stop the run?"
        yield box

    def action_stop(self) -> None:
        ask_stop(self._run)
        self.dismiss(f"Asked {self._run.id} to stop now.")

    def action_stop_after_checkpoint(self) -> None:
        ask_stop(self._run, after_checkpoint=True)
        self.dismiss(f"Asked {self._run.id} to stop after its next checkpoint.")

    def action_leave(self) -> None:
        self.dismiss()

    def _question(self) -> Content:
        step = step_of(self._state.step, self._state.total_steps)
        lines = [Content(f"{self._run.id} is {self._state.state}, step {step}."), Content("")]
        for key, what, consequence in _CHOICES:
            line = Content.styled(f" {key} ", "bold $primary") + Content(f" {what}")
            lines.append(line + Content.styled(f"  {consequence}", "$quiet"))
        return Content("\n").join(lines)
