"""The dialog that edits the overrides of a launch: keys are found by a part of their names."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from textual import on, work
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Input, Static

from engine.base.errors import UsageError
from grubrics_tui.screens.base import Dialog
from grubrics_tui.settings.actions import bindings
from grubrics_tui.widgets.facts import Facts, inert
from grubrics_tui.widgets.key_list import KeyList, key_facts

if TYPE_CHECKING:
    from engine.config.load import Config


class OverridesScreen(Dialog[tuple[str, ...]]):
    """Returns overrides that the config accepts, or None. A refusal is shown in one line."""

    WHERE = "overrides"
    BINDINGS = bindings("overrides")
    KEYS = (("tab", "takes the key"), ("enter", "apply"), ("esc", "cancel"))

    DEFAULT_CSS = """
    OverridesScreen {
        & > Vertical { width: 100; max-width: 100%; height: 80%; max-height: 30; padding: 0 1; }
        Input, Input:focus { border: none; background: $background; height: 1; padding: 0 1; }
        #problem { height: auto; max-height: 4; margin: 1 0; }
        KeyList { background: $panel; }
        #about { height: 4; margin-top: 1; padding: 0; border: none; }
    }
    """

    def __init__(self, source: str, overrides: tuple[str, ...], runs_root: Path) -> None:
        super().__init__()
        self._source, self._overrides, self._runs_root = source, overrides, runs_root
        self._config: Config | None = None

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

    def on_mount(self) -> None:
        self.query_one(Input).focus()
        self._load()

    @work(thread=True, group="load", exit_on_error=False)
    def _load(self) -> None:
        from engine.launch.plan_launch import config_for_launch

        try:
            config, _ = config_for_launch(self._source, self._overrides, self._runs_root)
        except UsageError as error:
            self.call_later(self.show_refusal, str(error))
        else:
            self.call_later(self.list_keys, config)

    def list_keys(self, config: Config) -> None:
        self._config = config
        self._find()

    @on(Input.Changed)
    def _find(self) -> None:
        """List the keys that the word before the cursor may mean."""
        if (config := self._config) is not None:
            typed = self.query_one(Input).value.rpartition(" ")[2].partition("=")[0]
            self.query_one(KeyList).fill(config, typed)

    @on(KeyList.Moved)
    def _describe(self) -> None:
        key = self.query_one(KeyList).selected
        about = [] if key is None or not self._config else key_facts(key, self._config.kind)
        self.query_one("#about", Facts).show(about)

    def action_pick(self, rows: int) -> None:
        self.query_one(KeyList).move(rows)

    def action_take_key(self) -> None:
        """Complete the key that is being typed; its value is typed after it."""
        if (key := self.query_one(KeyList).selected) is not None:
            field = self.query_one(Input)
            before, blank, setting = field.value.rpartition(" ")
            value = setting.partition("=")[2]
            field.value = f"{before}{blank}{key}={value}"
            field.cursor_position = len(field.value)

    @on(Input.Submitted)
    def _submit(self, event: Input.Submitted) -> None:
        self._try(event.value)

    @work(thread=True, exclusive=True, exit_on_error=False)
    def _try(self, text: str) -> None:
        from engine.launch.plan_launch import config_for_launch

        try:
            overrides = tuple(shlex.split(text))
            config_for_launch(self._source, overrides, self._runs_root)
        except (UsageError, ValueError) as error:
            self.call_later(self.show_refusal, str(error))
        else:
            self.call_later(self.close, overrides)

    def show_refusal(self, reason: str) -> None:
        self.query_one("#problem", Static).update(inert(Content.styled(reason, "$error")))


_HINT = Content.styled("YAML values; the end of a key is enough; empty: no overrides", "$quiet")
