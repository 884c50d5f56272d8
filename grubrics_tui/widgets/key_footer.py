"""The line of keys at the bottom of a screen.

One widget draws all keys. Textual's footer has a widget for each key and replaces all of them when
one changes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from rich.cells import cell_len
from textual import events
from textual.content import Content
from textual.css.query import NoMatches
from textual.reactive import reactive
from textual.screen import Screen
from textual.widget import Widget


class _Key(NamedTuple):
    key: str
    label: str
    description: str

    @property
    def width(self) -> int:
        return cell_len(self.label) + cell_len(self.description) + BETWEEN


BETWEEN = 3
"""Cells of a key around its label and its description."""


class KeyFooter(Widget):
    """Each enabled key with what it does; a click presses it."""

    ALLOW_SELECT = False
    DEFAULT_CSS = """
    KeyFooter {
        dock: bottom; height: 1; padding: 0 1; color: $foreground; background: $background;
    }
    """

    _keys: reactive[tuple[_Key, ...]] = reactive(())
    _hovered: reactive[_Key | None] = reactive(None)

    def on_mount(self) -> None:
        self.screen.bindings_updated_signal.subscribe(self, self._bindings_changed)

    def on_unmount(self) -> None:
        self.screen.bindings_updated_signal.unsubscribe(self)

    def _bindings_changed(self, screen: Screen[object]) -> None:
        if screen.app.app_focus and self.is_attached and screen is self.screen:
            self.call_after_refresh(self.update_keys)

    def update_keys(self) -> None:
        """Show the keys of the screen as they are now."""
        if not self.is_attached:
            return
        try:
            active = self.screen.active_bindings.values()
        except NoMatches:
            # The screen closes: a widget that its keys depend on is gone before this one.
            return
        shown = [entry.binding for entry in active if entry.enabled and entry.binding.show]
        first = {binding.action: binding for binding in reversed(shown)}
        self._keys = tuple(
            _Key(binding.key, self.app.get_key_display(binding), binding.description)
            for binding in shown
            if first[binding.action] is binding
        )

    def render(self) -> Content:
        return Content.assemble(*self._parts())

    def _parts(self) -> Iterator[tuple[str, str]]:
        for key in self._keys:
            hovered = " on $block-hover-background" if key is self._hovered else ""
            yield f" {key.label} ", f"bold $primary{hovered}"
            yield f"{key.description} ", f"$foreground{hovered}"

    def _key_at(self, event: events.MouseEvent) -> _Key | None:
        offset = event.get_content_offset(self)
        if offset is None:
            return None
        right = 0
        for key in self._keys:
            right += key.width
            if offset.x < right:
                return key
        return None

    def on_mouse_move(self, event: events.MouseMove) -> None:
        self._hovered = self._key_at(event)

    def on_leave(self) -> None:
        self._hovered = None

    def on_mouse_down(self, event: events.MouseDown) -> None:
        key = self._key_at(event)
        if key is not None:
            self.app.simulate_key(key.key)
