"""The results and differences of groups of runs as a table with a cursor."""

from __future__ import annotations

from collections.abc import Sequence

from textual import events
from textual.message import Message

from engine.reports.compare import Comparison
from grubrics_tui.drawing.comparison import Grid, TableLine, head, line, table_lines
from grubrics_tui.drawing.plot import glyph_of
from grubrics_tui.drawing.spans import Row, Span, width_of
from grubrics_tui.widgets.span_widget import SpanWidget


class CompareTable(SpanWidget):
    """The names of the groups stay above the rows; the cursor skips headings."""

    class Moved(Message):
        """The cursor or the visible part has moved."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._heads: Sequence[tuple[str, str]] = ()
        self._comparison: Comparison | None = None
        self._lines: list[TableLine] = []
        self._cursor, self._top, self._first_run, self._shift = 1, 0, 0, 0
        self._options = (False, False)

    def show(
        self,
        comparison: Comparison,
        heads: Sequence[tuple[str, str]],
        *,
        deltas: bool,
        shell: bool = False,
    ) -> None:
        """``heads``: label and color of each group; ``deltas`` and ``shell``: see
        ``table_lines``."""
        if (comparison, (deltas, shell)) == (self._comparison, self._options):
            return
        selected, self._heads = self.selected, heads
        self._comparison, self._options = comparison, (deltas, shell)
        star = "*" if self.ascii_only else "★"
        self._lines = table_lines(comparison, deltas=deltas, shell=shell, star=star)
        labels = [None if row.is_heading else row.label for row in self._lines]
        if selected is not None and selected.label in labels:
            self._cursor = labels.index(selected.label)
        self.move(0)

    @property
    def selected(self) -> TableLine | None:
        row = self._lines[self._cursor] if self._cursor < len(self._lines) else None
        return None if row is None or row.is_heading else row

    @property
    def position(self) -> str:
        """``row 3 of 40``, and the visible runs if not all fit."""
        rows = [number for number, row in enumerate(self._lines) if not row.is_heading]
        current = sum(number <= self._cursor for number in rows)
        grid = self._grid(self.size.width)
        names = self._comparison.names if self._comparison else ()
        columns = f"columns {grid.first + 1} to {grid.places[-1] + 1}, "
        runs = "" if grid.shown >= len(names) else columns
        along = f"cell {grid.shift + 1}, " if grid.shift else ""
        return f"{runs}{along}row {current} of {len(rows)}"

    def move(self, rows: int) -> None:
        """Move the cursor down by rows; skips headings."""
        last = len(self._lines) - 1
        target = max(0, min(last, self._cursor + rows))
        way = 1 if rows >= 0 else -1
        for step in (way, -way):
            index = target
            while 0 <= index <= last and self._lines[index].is_heading:
                index += step
            if 0 <= index <= last:
                self._cursor = index
                break
        self._changed()

    def move_to_end(self) -> None:
        self.move(len(self._lines))

    def sideways(self, runs: int) -> None:
        count = len(self._comparison.groups) if self._comparison else 0
        shown = self._grid(self.size.width).shown
        self._first_run = max(0, min(self._first_run + runs, count - shown))
        self._changed()

    def along(self, cells: int) -> None:
        """Scroll values that are wider than their columns."""
        self._shift = max(0, self._grid(self.size.width).shift + cells)
        self._shift = self._grid(self.size.width).shift
        self._changed()

    def draw(self, width: int, height: int) -> list[Row]:
        if self._comparison is None or height < 2:
            return []
        grid = self._grid(width)
        keys = [self._glyph(number) for number in range(len(self._heads))]
        self._scroll(height - 1)
        shown = list(enumerate(self._lines))[self._top : self._top + height - 1]
        rows = [head(self._heads, keys, grid)]
        for number, row in shown:
            spans = line(row, grid, width, chosen=number == self._cursor)
            # The background of the cursor extends to the end of the line.
            end = Span(" " * max(0, width - width_of(spans)), "", spans[-1].paper)
            rows.append([*spans, end])
        return rows

    def on_click(self, event: events.Click) -> None:
        inside = event.get_content_offset(self)
        if inside is not None and inside.y >= 1:  # Below the heads.
            self.move(self._top + inside.y - 1 - self._cursor)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        self.move(3)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        self.move(-3)

    def on_resize(self, event: events.Resize) -> None:
        super().on_resize(event)
        self._changed()

    def _changed(self) -> None:
        self.redraw()
        self.post_message(self.Moved())

    def _glyph(self, number: int) -> str:
        """The character that marks a run besides its color; the baseline has a diamond."""
        assert self._comparison is not None
        if number == self._comparison.baseline:
            return "=" if self.ascii_only else "◆"
        return glyph_of(number) if self.colorless else "━"

    def _grid(self, width: int) -> Grid:
        count = len(self._comparison.groups) if self._comparison else 0
        return Grid.of(self._lines, count, width, self._first_run, self._shift)

    def _scroll(self, rows: int) -> None:
        """Keep the cursor visible, with the heading above it and those that end the table."""
        above = self._cursor - 1 if self._cursor and self._lines[self._cursor - 1].is_heading else 0
        first = above or self._cursor
        self._top = min(self._top, first)
        below = self._lines[self._cursor + 1 :]
        last = len(self._lines) - 1 if all(row.is_heading for row in below) else self._cursor
        self._top = max(self._top, min(last - rows + 1, self._cursor), 0)
        self._top = min(self._top, max(0, len(self._lines) - rows))
