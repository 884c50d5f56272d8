"""The line of keys at the bottom of a screen."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.binding import Binding
from textual.css.query import NoMatches
from textual.widgets import Footer


class KeyFooter(Footer):
    """Textual's footer, without the command palette and with less work: half of the updates of the
    bindings change no key, and a new key would compute its styles as compact and then again."""

    def __init__(self) -> None:
        super().__init__(show_command_palette=False)
        self._drawn: list[tuple[Binding, bool, str]] = []

    async def recompose(self) -> None:
        if not self.is_attached:
            return
        try:
            active = self.screen.active_bindings.values()
        except NoMatches:
            # The screen closes: a widget that its keys depend on is gone before this one.
            return
        keys = [
            (binding, enabled, tooltip) for _, binding, enabled, tooltip in active if binding.show
        ]
        if keys != self._drawn:
            self._drawn = keys
            await super().recompose()

    def compose(self) -> ComposeResult:
        for key in super().compose():
            compact = getattr(type(key), "compact", None)
            if compact is not None:
                key.set_reactive(compact, self.compact)
            yield key
