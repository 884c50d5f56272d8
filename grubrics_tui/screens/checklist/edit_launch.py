"""The dialog that edits the overrides of a launch: keys are found by a part of their names."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from textual import on, work
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.widgets import Input, Static

from engine.base.errors import UsageError
from grubrics_tui.screens.base import Dialog
from grubrics_tui.settings.actions import bindings
from grubrics_tui.widgets.facts import Facts, inert
from grubrics_tui.widgets.key_list import KeyList, find_keys, key_facts

if TYPE_CHECKING:
    from engine.recipe.recipe import Recipe


class OverridesScreen(Dialog[tuple[str, ...]]):
    """Returns overrides that the config accepts, or None. A refusal is shown in one line."""

    WHERE = "overrides"
    BINDINGS = bindings("overrides")

    DEFAULT_CSS = """
    OverridesScreen {
        align: center middle;
        & > Vertical {
            width: 100; max-width: 100%; height: 80%; max-height: 30; padding: 0 1;
            background: $panel; border: round $line-focus; border-title-color: $primary;
            border-subtitle-color: $quiet;
        }
        Input, Input:focus { border: none; background: $background; height: 1; padding: 0 1; }
        #problem { height: auto; max-height: 4; margin: 1 0; }
        KeyList { background: $panel; }
        #about { height: 4; margin-top: 1; padding: 0; border: none; }
    }
    """

    class Loaded(Message):
        """The config was read; its keys can be listed."""

        def __init__(self, recipe: Recipe) -> None:
            super().__init__()
            self.recipe = recipe

    class Accepted(Message):
        def __init__(self, overrides: tuple[str, ...]) -> None:
            super().__init__()
            self.overrides = overrides

    class Refused(Message):
        def __init__(self, reason: str) -> None:
            super().__init__()
            self.reason = reason

    def __init__(self, source: str, overrides: tuple[str, ...], runs_root: Path) -> None:
        super().__init__()
        self._source, self._overrides, self._runs_root = source, overrides, runs_root
        self._recipe: Recipe | None = None
        self._keys: list[str] = []
        self._selected = 0

    def compose(self) -> ComposeResult:
        with Vertical() as box:
            yield Input(
                shlex.join(self._overrides),
                placeholder="key=value key=value ...",
                select_on_focus=False,
            )
            yield Static(_HINT, id="problem", markup=False)
            yield KeyList()
            yield Facts("", id="about")
        box.border_title = inert(f"Overrides of {self._source}")
        box.border_subtitle = "tab takes the key, enter apply, esc cancel"

    def on_mount(self) -> None:
        self.query_one(Input).focus()
        self._load()

    @work(thread=True, group="load", exit_on_error=False)
    def _load(self) -> None:
        from engine.launch.plan_launch import recipe_for_launch

        try:
            recipe, _ = recipe_for_launch(self._source, self._overrides, self._runs_root)
        except UsageError as error:
            self.post_message(self.Refused(str(error)))
        else:
            self.post_message(self.Loaded(recipe))

    @on(Loaded)
    def _list_keys(self, message: Loaded) -> None:
        self._recipe = message.recipe
        self._find()

    @on(Input.Changed)
    def _find(self) -> None:
        """List the keys that the word before the cursor may mean."""
        if self._recipe is None:
            return
        self._keys = find_keys(self._recipe, _last_word(self.query_one(Input).value))
        self.action_pick(-len(self._keys))

    def action_pick(self, rows: int) -> None:
        self._selected = max(0, min(self._selected + rows, len(self._keys) - 1))
        if (recipe := self._recipe) is not None:
            self.query_one(KeyList).show(recipe, self._keys, self._selected)
            chosen = self._keys[self._selected : self._selected + 1]
            about = [fact for key in chosen for fact in key_facts(key, recipe.kind)]
            self.query_one("#about", Facts).show(about)

    def action_take_key(self) -> None:
        """Complete the key that is being typed; its value is typed after it."""
        if self._keys:
            field = self.query_one(Input)
            before, blank, setting = field.value.rpartition(" ")
            value = setting.partition("=")[2]
            field.value = f"{before}{blank}{self._keys[self._selected]}={value}"
            field.cursor_position = len(field.value)

    @on(Input.Submitted)
    def _submit(self, event: Input.Submitted) -> None:
        self._try(event.value)

    @work(thread=True, exclusive=True, exit_on_error=False)
    def _try(self, text: str) -> None:
        from engine.launch.plan_launch import recipe_for_launch

        try:
            overrides = tuple(shlex.split(text))
            recipe_for_launch(self._source, overrides, self._runs_root)
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


_HINT = Content.styled("YAML values; the end of a key is enough; empty: no overrides", "$quiet")


def _last_word(text: str) -> str:
    """The key that is being typed, or whose value is."""
    return text.rpartition(" ")[2].partition("=")[0]
