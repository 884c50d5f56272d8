"""One line that names a screen's keys, for who opens it for the first time."""

from __future__ import annotations

from collections.abc import Sequence

from textual.content import Content
from textual.widgets import Static


class HintLine(Static):
    """Has a line of its own above the footer: what it would lie over is there to be read."""

    DEFAULT_CSS = """
    HintLine {
        height: 1; width: 100%; padding: 0 2;
        background: $panel; color: $quiet; text-wrap: nowrap; text-overflow: ellipsis;
    }
    """

    can_focus = False

    def __init__(self, keys: Sequence[tuple[str, str]]) -> None:
        parts = [
            Content.styled(f"{key} ", "bold $primary") + Content.styled(told, "$foreground")
            for key, told in keys
        ]
        super().__init__(Content.styled("new here?  ", "$mark") + Content("   ").join(parts))
