"""A list with a cursor, which keys, clicks and the wheel move."""

from __future__ import annotations

from textual import events
from textual.message import Message

from grubrics_tui.drawing.spans import Row
from grubrics_tui.widgets.span_widget import SpanWidget

_WHEEL = 3


class RowList(SpanWidget):
    """The cursor skips headings; the heading above it stays visible with it.

    Subclasses know the lines, and draw those in sight below the heads that stay.
    """

    HEADS = 0
    """Rows above the lines."""
    IS_CENTERED = False
    """Whether the cursor stays in the middle; else the list scrolls no more than it must."""

    class Moved(Message):
        """The cursor or the visible part has moved, or the cursor is on something else."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.cursor = self._top = 0

    def count(self) -> int:
        raise NotImplementedError

    def is_heading(self, index: int) -> bool:
        return False

    def draw_lines(self, shown: range, width: int) -> list[Row]:
        """The heads, and the lines with these numbers."""
        raise NotImplementedError

    @property
    def position(self) -> str:
        """``row 3 of 40``."""
        rows = [index for index in range(self.count()) if not self.is_heading(index)]
        return f"row {sum(index <= self.cursor for index in rows)} of {len(rows)}"

    def move(self, rows: int) -> None:
        """Move the cursor down by rows, from a heading on to the next row in that direction."""
        last, way = self.count() - 1, 1 if rows >= 0 else -1
        target = max(0, min(last, self.cursor + rows))
        for step in (way, -way):
            index = target
            while 0 <= index <= last and self.is_heading(index):
                index += step
            if 0 <= index <= last:
                self.cursor = index
                break
        self.changed(self._hint)

    def select(self, index: int) -> None:
        """Go to a line, or with -1 to the last one."""
        self.move(index % max(1, self.count()) - self.cursor)

    def changed(self, hint: str = "") -> None:
        """Draw again, and tell the screen."""
        self.redraw(hint)
        self.post_message(self.Moved())

    def draw(self, width: int, height: int) -> list[Row]:
        room = height - self.HEADS
        if not self.count() or room < 1:
            return []
        self._scroll(room)
        return self.draw_lines(range(self._top, min(self._top + room, self.count())), width)

    def _scroll(self, rows: int) -> None:
        """Keep the cursor visible, with the heading above it and those that end the list."""
        last = self.count() - 1
        if self.IS_CENTERED:
            self._top = self.cursor - rows // 2
        else:
            has_heading = self.cursor > 0 and self.is_heading(self.cursor - 1)
            end = (
                last if all(map(self.is_heading, range(self.cursor + 1, last + 1))) else self.cursor
            )
            self._top = min(self._top, self.cursor - has_heading)
            self._top = max(self._top, min(end - rows + 1, self.cursor))
        self._top = max(0, min(self._top, last + 1 - rows))

    def on_click(self, event: events.Click) -> None:
        inside = event.get_content_offset(self)
        if inside is not None and 0 <= (index := inside.y - self.HEADS) < self.count() - self._top:
            self.move(self._top + index - self.cursor)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        self.move(_WHEEL)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        self.move(-_WHEEL)
