"""A list with a cursor, which keys, clicks and the wheel move."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import chain
from typing import Generic, TypeVar

from textual import events
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from grubrics_tui.drawing.spans import Row
from grubrics_tui.widgets.span_widget import SpanWidget

Item = TypeVar("Item")

_WHEEL = 3


class RowList(SpanWidget, ScrollView, Generic[Item]):
    """The cursor skips headings; the heading above it stays visible with it.

    Subclasses draw the items in sight below the heads that stay. In a list with a scrollbar the
    wheel scrolls, in others it moves the cursor.
    """

    DEFAULT_CSS = """
    RowList {
        overflow: hidden; scrollbar-size: 1 1;
        &.-framed {
            padding: 0 1;
            border: round $line-focus; border-title-color: $primary; border-subtitle-color: $quiet;
        }
    }
    """

    HEADS = 0
    """Rows above the items."""
    IS_CENTERED = False
    """Whether the cursor stays in the middle; else the list scrolls no more than it must."""

    class Moved(Message):
        """The cursor or the visible part has moved, or the cursor is on something else."""

    class Opened(Message):
        """The item under the cursor was clicked."""

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self.items: Sequence[Item] = ()
        self.cursor = 0

    def is_heading(self, item: Item) -> bool:
        return False

    def key_of(self, item: Item) -> object:
        """What stays the same of an item when the list is shown again."""
        return item

    def starts(self, width: int) -> Sequence[int]:
        """The row at which each item begins, then the number of rows."""
        return range(len(self.items) + 1)

    def draw_items(self, shown: range, width: int) -> list[Row]:
        """The heads, and the items with these numbers."""
        raise NotImplementedError

    @property
    def selected(self) -> Item | None:
        if self.cursor >= len(self.items) or self.is_heading(self.items[self.cursor]):
            return None
        return self.items[self.cursor]

    @property
    def room(self) -> int:
        """Rows for items."""
        return max(0, self.scrollable_size.height - self.HEADS)

    @property
    def position(self) -> str:
        """``row 3 of 40``."""
        rows = [index for index, item in enumerate(self.items) if not self.is_heading(item)]
        return f"row {sum(index <= self.cursor for index in rows)} of {len(rows)}"

    def show(
        self,
        items: Sequence[Item],
        hint: str = "",
        *,
        cursor: int | None = None,
        keep_scroll: bool = False,
    ) -> None:
        """The cursor stays on its item, or goes to the first one if that is gone, or to ``cursor``.

        ``hint`` is shown if there is no item; with ``keep_scroll`` the cursor may be out of sight.
        """
        cursor = self.find_selected(items) if cursor is None else cursor
        self.items, self._hint = items, hint
        self._place_cursor(cursor)
        if not keep_scroll:
            self._follow_cursor()
        self.changed()

    def find_selected(self, items: Sequence[Item], default: int = 0) -> int:
        """Where the item under the cursor is among others; ``default`` if it is not."""
        if (selected := self.selected) is None:
            return default
        keys = [self.key_of(item) for item in items]
        key = self.key_of(selected)
        return keys.index(key) if key in keys else default

    def move(self, count: int) -> None:
        """Move the cursor down by items."""
        self._place_cursor(self.cursor + count, upwards=count < 0)
        self._follow_cursor()
        self.changed()

    def select(self, index: int) -> None:
        """Go to an item, or with -1 to the last one."""
        self.move(index % max(1, len(self.items)) - self.cursor)

    def changed(self) -> None:
        """Draw again, and tell the screen."""
        self._measure()
        self.redraw(self._hint)
        self.post_message(self.Moved())

    def draw(self, width: int, height: int) -> list[Row]:
        room = height - self.HEADS
        if not self.items or room < 1:
            return []
        starts, top = self.starts(width), self.scroll_offset.y
        first = bisect_right(starts, top) - 1
        end = bisect_left(starts, min(top + room, starts[-1]))
        rows = self.draw_items(range(first, end), width)
        return [*rows[: self.HEADS], *rows[self.HEADS + top - starts[first] :]]

    def render_lines(self, crop: Region) -> list[Strip]:
        if self.scrollable_size != self._drawn_for:  # The scrollbar has come or gone.
            self._strips = None
        return super().render_lines(crop)

    def _place_cursor(self, index: int, *, upwards: bool = False) -> None:
        """Put the cursor on an item, from a heading on to the next item in that direction."""
        numbers = range(len(self.items))
        target = max(0, min(len(numbers) - 1, index))
        below, above = numbers[target:], numbers[target::-1]
        order = chain(above, below) if upwards else chain(below, above)
        self.cursor = next((n for n in order if not self.is_heading(self.items[n])), target)

    def _measure(self) -> Sequence[int]:
        """Where the items begin; tells the scrollbar how many rows there are."""
        starts = self.starts(self.scrollable_size.width)
        self.virtual_size = Size(1, self.HEADS + starts[-1])
        return starts

    def _follow_cursor(self) -> None:
        """Keep the cursor visible, with the heading above it and those that end the list."""
        starts, rows = self._measure(), self.room
        if not self.items or not rows:
            return
        if self.IS_CENTERED:
            top = starts[self.cursor] - rows // 2
        else:
            has_heading = self.cursor > 0 and self.is_heading(self.items[self.cursor - 1])
            is_last = all(map(self.is_heading, self.items[self.cursor + 1 :]))
            end = starts[-1 if is_last else self.cursor + 1]
            top = min(self.scroll_offset.y, starts[self.cursor - has_heading])
            top = max(top, min(end - rows, starts[self.cursor]))
        self.scroll_to(y=top, animate=False, immediate=True, force=True)

    def watch_scroll_y(self, old: float, new: float) -> None:
        super().watch_scroll_y(old, new)
        self._strips = None
        self.post_message(self.Moved())

    def on_resize(self, event: events.Resize) -> None:
        self._follow_cursor()
        self.changed()

    def on_click(self, event: events.Click) -> None:
        inside = event.get_content_offset(self)
        if inside is None or inside.y < self.HEADS:
            return
        starts = self.starts(self.scrollable_size.width)
        index = bisect_right(starts, self.scroll_offset.y + inside.y - self.HEADS) - 1
        if index < len(self.items):
            is_second_click = index == self.cursor
            self.move(index - self.cursor)
            if is_second_click:
                self.post_message(self.Opened())

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        self._turn_wheel(_WHEEL)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        self._turn_wheel(-_WHEEL)

    def _turn_wheel(self, count: int) -> None:
        if self.styles.overflow_y == "hidden":
            self.move(count)
