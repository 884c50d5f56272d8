"""The dialog that edits the overrides of a launch."""

from __future__ import annotations

import shlex

from textual import on, work
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.widgets import Input, Static

from engine.base.errors import UsageError
from grubrics_tui.screens.base import Dialog
from grubrics_tui.settings.actions import bindings
from grubrics_tui.widgets.facts import inert


class OverridesScreen(Dialog[tuple[str, ...]]):
    """Returns overrides that the config accepts, or None. A refusal is shown in one line."""

    BINDINGS = bindings("overrides")

    DEFAULT_CSS = """
    OverridesScreen {
        align: center middle;
        & > Vertical {
            width: 100; max-width: 96%; height: auto; padding: 1 2;
            background: $panel; border: round $line-focus; border-title-color: $primary;
            border-subtitle-color: $quiet;
        }
        Input, Input:focus { border: none; background: $background; height: 1; padding: 0 1; }
        #problem { margin-top: 1; }
    }
    """

    class Accepted(Message):
        def __init__(self, overrides: tuple[str, ...]) -> None:
            super().__init__()
            self.overrides = overrides

    class Refused(Message):
        def __init__(self, reason: str) -> None:
            super().__init__()
            self.reason = reason

    def __init__(self, config: str, overrides: tuple[str, ...]) -> None:
        super().__init__()
        self._config, self._overrides = config, overrides

    def compose(self) -> ComposeResult:
        field = Input(shlex.join(self._overrides), placeholder="key=value key=value ...")
        hint = Content.styled("YAML values; leave empty to clear all overrides", "$quiet")
        box = Vertical(field, Static(hint, id="problem", markup=False))
        box.border_title = inert(f"Overrides of {self._config}")
        box.border_subtitle = "enter apply, esc cancel"
        yield box

    @on(Input.Submitted)
    def _submit(self, event: Input.Submitted) -> None:
        self._try(event.value)

    @work(thread=True, exclusive=True, exit_on_error=False)
    def _try(self, text: str) -> None:
        from engine.recipe.recipe import load_recipe

        try:
            overrides = tuple(shlex.split(text))
            load_recipe(self._config, overrides)
        except (UsageError, ValueError) as error:
            self.post_message(self.Refused(str(error)))
        else:
            self.post_message(self.Accepted(overrides))

    @on(Accepted)
    def _accept(self, message: Accepted) -> None:
        self.dismiss(message.overrides)

    @on(Refused)
    def _refuse(self, message: Refused) -> None:
        self.query_one("#problem", Static).update(inert(Content.styled(message.reason, "$error")))

    def action_back(self) -> None:
        self.dismiss()
