"""Every key of the screen below it, with its CLI equivalent."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from grubrics_tui.settings.actions import Action, actions_of, bindings, remapped
from grubrics_tui.settings.keys import format_keys


class HelpScreen(ModalScreen[None]):
    """Read from the action registry. Keys that are unavailable now are listed and marked."""

    BINDINGS = bindings("help")

    DEFAULT_CSS = """
    HelpScreen {
        align: center middle;
        & > VerticalScroll {
            width: 122; max-width: 96%; height: auto; max-height: 90%; padding: 1 2;
            background: $panel; border: round $line-focus; border-title-color: $primary;
            border-subtitle-color: $quiet;
        }
    }
    """

    def __init__(
        self, where: str, keys: Mapping[str, str], offers: Callable[[Action], bool]
    ) -> None:
        super().__init__()
        self._where, self._keys, self._offers = where, keys, offers

    def compose(self) -> ComposeResult:
        box = VerticalScroll(Static(self._table(), markup=False))
        box.border_title = f"Keys: {self._where.replace('_', ' ')}"
        box.border_subtitle = "esc close"
        yield box

    def action_back(self) -> None:
        self.dismiss()

    def action_cursor_down(self) -> None:
        self.query_one(VerticalScroll).scroll_down(animate=False)

    def action_cursor_up(self) -> None:
        self.query_one(VerticalScroll).scroll_up(animate=False)

    def _table(self) -> Content:
        actions = [remapped(action, self._keys) for action in actions_of(self._where)]
        ascii_only = bool(getattr(self.app, "ascii_only", False))
        pressed = [format_keys(action.key, ascii_only=ascii_only) for action in actions]
        keys = max(map(len, pressed)) + 2
        words = max(len(action.description) for action in actions) + 2
        wide = self.app.size.width > keys + words + 50
        lines = [
            _line(action, key.ljust(keys), words if wide else 0, offered=self._offers(action))
            for action, key in zip(actions, pressed, strict=True)
        ]
        lines += [Content(""), Content.styled("ctrl+p  command palette", "$quiet")]
        return Content("\n").join(lines)


def _line(action: Action, keys: str, words: int, *, offered: bool) -> Content:
    """Key, description and CLI equivalent: in columns, or in two lines if there is no room."""
    if not offered:
        return Content.styled(f"{keys}{action.description} (unavailable)", "$quiet")
    line = Content.styled(keys, "bold $primary")
    line += action.description.ljust(words)
    if not action.cli_equivalent:
        return line
    return line + Content.styled(
        ("" if words else f"\n{' ' * len(keys)}") + f"$ {action.cli_equivalent}", "$quiet"
    )
