"""Choose a key of the config and the values to try, from a list that narrows while typing."""

from __future__ import annotations

from dataclasses import dataclass, replace

from textual import on, work
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.widgets import Input, Static

from engine.ablations.plan import split_values
from engine.base.errors import UsageError
from engine.base.jsonl import line
from engine.recipe.recipe import Recipe, load_recipe
from grubrics_tui.drawing.wrap import clipped
from grubrics_tui.screens.base import Dialog
from grubrics_tui.settings.actions import bindings
from grubrics_tui.widgets.facts import inert
from grubrics_tui.widgets.key_list import LONGEST_VALUE, KeyList, find_keys


@dataclass(frozen=True)
class Knob:
    """A key and the values to try beside the base's."""

    key: str
    values: tuple[str, ...]


class ChooseKnob(Dialog[Knob]):
    """Returns a knob whose values the config accepts, or None."""

    WHERE = "choose"
    BINDINGS = bindings("choose")

    DEFAULT_CSS = """
    ChooseKnob {
        align: center middle;
        & > Vertical {
            width: 96; max-width: 100%; height: 80%; max-height: 30; padding: 0 1;
            background: $panel; border: round $line-focus; border-title-color: $primary;
            border-subtitle-color: $quiet;
        }
        Input, Input:focus { border: none; height: 1; padding: 0; background: $panel; }
        #problem { height: auto; max-height: 4; margin-bottom: 1; }
        KeyList { background: $panel; }
    }
    """

    class Accepted(Message):
        def __init__(self, knob: Knob) -> None:
            super().__init__()
            self.knob = knob

    class Refused(Message):
        def __init__(self, reason: str) -> None:
            super().__init__()
            self.reason = reason

    def __init__(self, base: Recipe) -> None:
        super().__init__()
        self._base = base
        self._keys: list[str] = []
        self._selected = 0

    def compose(self) -> ComposeResult:
        with Vertical() as box:
            yield Input(placeholder="type part of a key, e.g. lr or rank", compact=True)
            yield Static(id="problem", markup=False)
            yield KeyList()
        box.border_title = inert(f"What to vary in {self._base.name}")
        box.border_subtitle = "enter takes the key, then the values; esc cancel"

    def on_mount(self) -> None:
        self.query_one(Input).focus()
        self._find("")

    @on(Input.Changed)
    def _type(self, message: Input.Changed) -> None:
        key, separator, _ = message.value.partition("=")
        self._find(key)
        if separator and key in self._base.values:
            origin = self._base.origins.get(key, "default")
            text = f"now {self._value(key)} ({origin}); type other values: {key}=V1,V2"
            self._say(Content.styled(text, "$quiet"))
        else:
            self._say(Content(""))

    @on(Input.Submitted)
    def _submit(self, message: Input.Submitted) -> None:
        key, separator, values = message.value.partition("=")
        if not separator:
            self._take_key()
        elif not all(split_values(values)):
            self._say(Content.styled(f"type the values to try: {key}=V1,V2", "$error"))
        else:
            self._try(Knob(key, split_values(values)))

    def _take_key(self) -> None:
        """Complete the key under the cursor; the values are typed after it."""
        if self._keys:
            field = self.query_one(Input)
            field.value = f"{self._keys[self._selected]}="
            field.cursor_position = len(field.value)

    @work(thread=True, exclusive=True, exit_on_error=False)
    def _try(self, knob: Knob) -> None:
        """Load the base with each value. The end of a key is enough, as on the command line."""
        try:
            for value in knob.values:
                overrides = (*self._base.overrides, f"{knob.key}={value}")
                recipe = load_recipe(str(self._base.path), overrides)
        except UsageError as error:
            self.post_message(self.Refused(str(error)))
        else:
            whole_key = recipe.overrides[-1].partition("=")[0]
            self.post_message(self.Accepted(replace(knob, key=whole_key)))

    @on(Accepted)
    def _accept(self, message: Accepted) -> None:
        self.dismiss(message.knob)

    @on(Refused)
    def _refuse(self, message: Refused) -> None:
        self._say(Content.styled(message.reason, "$error"))

    def action_pick(self, rows: int) -> None:
        self._selected = max(0, min(self._selected + rows, len(self._keys) - 1))
        self.query_one(KeyList).show(self._base, self._keys, self._selected)

    def action_back(self) -> None:
        self.dismiss()

    def _value(self, key: str) -> str:
        return clipped(line(str(self._base.get(key))) or "", LONGEST_VALUE)

    def _find(self, query: str) -> None:
        self._keys = find_keys(self._base, query)
        self._selected = 0
        self.query_one(KeyList).show(self._base, self._keys, 0)

    def _say(self, text: Content) -> None:
        self.query_one("#problem", Static).update(inert(text))
