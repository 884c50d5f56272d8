"""The names of the panels, where only one of them fits."""

from __future__ import annotations

from collections.abc import Sequence

from textual.content import Content
from textual.widgets import Static


class PanelTabs(Static):
    """One line: every panel's key and name, the shown one marked."""

    DEFAULT_CSS = "PanelTabs { height: 1; margin: 0 1; padding: 0 1; }"

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__("", markup=False)
        self._names = names

    def show(self, current: int) -> None:
        self.update(
            Content("   ").join(self._tab(i, i == current) for i in range(len(self._names)))
        )

    def _tab(self, index: int, chosen: bool) -> Content:
        text = f"{index + 1} {self._names[index]}"
        return (
            Content.styled(f"[{text}]", "bold $primary")
            if chosen
            else Content.styled(f" {text} ", "$quiet")
        )
