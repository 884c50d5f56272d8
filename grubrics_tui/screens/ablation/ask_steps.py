"""Ask how many steps every run of an ablation trains."""

from __future__ import annotations

from textual import on
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.validation import Integer
from textual.widgets import Input, Static

from grubrics_tui.screens.base import Dialog
from grubrics_tui.settings.actions import bindings


class AskSteps(Dialog[int]):
    """Returns the number of steps that every run trains, at least 1, or None."""

    WHERE = "overrides"
    BINDINGS = bindings("overrides")

    DEFAULT_CSS = """
    AskSteps {
        align: center middle;
        & > Vertical {
            width: 60; max-width: 96%; height: auto; padding: 1 2;
            background: $panel; border: round $line-focus; border-title-color: $primary;
            border-subtitle-color: $quiet;
        }
        Input, Input:focus { border: none; background: $background; height: 1; padding: 0 1; }
        Static { margin-top: 1; }
    }
    """

    def __init__(self, steps: int | None) -> None:
        super().__init__()
        self._steps = steps

    def compose(self) -> ComposeResult:
        value = "" if self._steps is None else str(self._steps)
        hint = Content.styled("the same for every arm", "$quiet")
        field = Input(value, type="integer", validators=[Integer(minimum=1)])
        box = Vertical(field, Static(hint, markup=False))
        box.border_title = "Steps of each run"
        box.border_subtitle = "enter apply, esc cancel"
        yield box

    @on(Input.Submitted)
    def _submit(self, event: Input.Submitted) -> None:
        result = event.validation_result
        if result is not None and result.is_valid:
            self.dismiss(int(event.value))
        else:
            error = Content.styled("type a whole number of at least 1", "$error")
            self.query_one(Static).update(error)

    def action_back(self) -> None:
        self.dismiss()
