"""The values of a configuration with a cursor, under headings."""

from __future__ import annotations

from collections.abc import Sequence

from textual import events
from textual.message import Message

from engine.reports.run_config import ConfigValue
from grubrics_tui.drawing.config_values import ConfigLine, config_rows
from grubrics_tui.drawing.spans import Row
from grubrics_tui.widgets.span_widget import SpanWidget

_WHEEL = 3


class ValueList(SpanWidget):
    """The cursor skips headings."""

    DEFAULT_CSS = """
    ValueList {
        height: 1fr; margin: 0 1; padding: 0 1;
        border: round $line-focus; border-title-color: $primary; border-subtitle-color: $quiet;
    }
    """

    class Highlighted(Message):
        """The value under the cursor has changed."""

    def __init__(self) -> None:
        super().__init__()
        self._lines: Sequence[ConfigLine] = ()
        self._cursor = self._top = 0

    @property
    def selected(self) -> ConfigValue | None:
        return self._lines[self._cursor].value if self._cursor < len(self._lines) else None

    @property
    def position(self) -> str:
        """``row 3 of 40``."""
        rows = [index for index, line in enumerate(self._lines) if line.value is not None]
        return f"row {sum(index <= self._cursor for index in rows)} of {len(rows)}"

    def show(self, lines: Sequence[ConfigLine], hint: str) -> None:
        """The cursor stays on its value; ``hint`` is shown if there is no line."""
        value = self.selected
        self._lines = lines
        found = (n for n, line in enumerate(lines) if value and line.value == value)
        self._hint = hint
        self._go(next(found, 0))

    def move(self, rows: int) -> None:
        self._go(self._cursor + rows, 1 if rows >= 0 else -1)

    def select(self, index: int) -> None:
        """The first value, or with -1 the last one."""
        self._go(index % max(1, len(self._lines)))

    def on_click(self, event: events.Click) -> None:
        if (inside := event.get_content_offset(self)) is not None:
            self._go(self._top + inside.y)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        self.move(_WHEEL)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        self.move(-_WHEEL)

    def draw(self, width: int, height: int) -> list[Row]:
        # The heading above the cursor stays visible with it.
        first = self._cursor - (self._cursor > 0 and self._lines[self._cursor - 1].value is None)
        self._top = max(min(self._top, first), self._cursor - height + 1)
        self._top = max(0, min(self._top, len(self._lines) - height))
        return list(config_rows(self._lines, self._top, height, self._cursor, width))

    def _go(self, index: int, way: int = 1) -> None:
        """Move the cursor to a line, or from a heading on to the nearest value."""
        target = max(0, min(index, len(self._lines) - 1))
        values = [n for n, line in enumerate(self._lines) if line.value is not None]
        self._cursor = min(values, key=lambda n: (abs(n - target), -way * n), default=0)
        self.redraw(self._hint)
        self.post_message(self.Highlighted())
