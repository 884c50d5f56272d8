"""The names of the panels, shown if not all panels are visible."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, islice

from textual import events
from textual.content import Content
from textual.message import Message
from textual.widgets import Static


class PanelTabs(Static):
    """One line: every panel's key and name, the current one marked, the visible ones bright."""

    DEFAULT_CSS = "PanelTabs { height: 1; margin: 0 1; padding: 0 1; display: none; }"

    class Chosen(Message):
        """The name of the panel at ``index`` was clicked."""

        def __init__(self, index: int) -> None:
            super().__init__()
            self.index = index

    def __init__(self) -> None:
        super().__init__("", markup=False)
        self._ends: list[tuple[int, int]] = []
        """The shown panels: index, and the cell at which its name ends."""
        self._names: Sequence[str] = ()
        self._current = 0
        self._in_sight: Sequence[int] = ()

    def show(self, names: Sequence[str], current: int, in_sight: Sequence[int]) -> None:
        self._names, self._current, self._in_sight = names, current, in_sight
        self._lay_out()

    def on_resize(self, event: events.Resize) -> None:
        self._lay_out()

    def on_click(self, event: events.Click) -> None:
        if (inside := event.get_content_offset(self)) is not None:
            for index, end in self._ends:
                if inside.x < end:
                    self.post_message(self.Chosen(index))
                    return

    def _lay_out(self) -> None:
        tabs = [self._tab(index) for index in range(len(self._names))]
        first, last = window([tab.cell_length for tab in tabs], self._current, self.size.width - 2)
        ellipsis = Content.styled("…", "$quiet")
        shown = tabs[first:last]
        ends = accumulate((tab.cell_length for tab in shown), initial=int(first > 0))
        self._ends = list(zip(range(first, last), islice(ends, 1, None), strict=True))
        if first:
            shown[0] = ellipsis + shown[0]
        if last < len(tabs):
            shown[-1] = shown[-1] + ellipsis
        self.update(Content("").join(shown), layout=False)  # It is one line in any case.

    def _tab(self, index: int) -> Content:
        text = f"{index + 1} {self._names[index]}" if index < 9 else self._names[index]
        if index == self._current:
            return Content.styled(f"[{text}]", "bold $primary")
        return Content.styled(f" {text} ", "" if index in self._in_sight else "$quiet")


def window(widths: Sequence[int], current: int, room: int) -> tuple[int, int]:
    """The longest stretch of tabs around the current one that fits, as ``[first, last)``."""
    if not widths:
        return 0, 0
    first, last = current, current + 1
    used = widths[current]
    while True:
        if last < len(widths) and used + widths[last] <= room:
            used, last = used + widths[last], last + 1
        elif first and used + widths[first - 1] <= room:
            used, first = used + widths[first - 1], first - 1
        else:
            return first, last
