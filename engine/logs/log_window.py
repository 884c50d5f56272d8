"""Which rows of a log a person sees, and which one the cursor is on. Knows nothing of screens."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from engine.logs.log_rows import Row, Rows

HeightOf = Callable[[Row], int]


class LogWindow:
    """A few rows in sight of a file of any size; places are byte offsets, so they never move.

    While ``following`` the last row is in sight, whatever the file gains.
    """

    def __init__(self, rows: Rows, size: int) -> None:
        self.rows, self.size = rows, size
        self.top = self.cursor = size
        self.following = True
        self.fills_upwards = True
        """The last row stands at the bottom; of the first one maybe only its end is in sight."""

    def turn_to(self, rows: Rows) -> None:
        """Show other rows of the same file, around the cursor."""
        self.rows = rows

    def visible(self, height: int, height_of: HeightOf) -> list[Row]:
        """The rows in sight; ``height_of`` says how many lines of the screen a row takes."""
        shown = self._at_end(height, height_of) if self.following else []
        if not shown:
            shown = self._around_cursor(height, height_of)
        if shown:
            self.top = shown[0].start
            if self.following:
                self.cursor = shown[-1].start
        return shown

    def move(self, count: int) -> None:
        """Move the cursor by rows; reaching the end follows it again."""
        if count < 0:
            above = self.rows.backward(self.cursor, -count)
            self.cursor = above[0].start if above else self.cursor
            self.following = self.following and not above
        else:
            below = self.rows.forward(self.cursor, count + 1)
            self.following = len(below) <= count or below[-1].end >= self.size
            self.cursor = below[-1].start if below else self.cursor

    def go_to(self, offset: int, height: int) -> Row | None:
        """The cursor on the row of the line at ``offset``, with what came before above it."""
        row = self.rows.holding(min(max(0, offset), self.size))
        if row is None:
            return None
        self.following, self.cursor = False, row.start
        above = self.rows.backward(row.start, height // 3)
        self.top = above[0].start if above else row.start
        return row

    def go_to_end(self) -> None:
        self.following = True

    def _at_end(self, height: int, height_of: HeightOf) -> list[Row]:
        return self._upwards(self.rows.backward(self.size, height), height, height_of)

    def _around_cursor(self, height: int, height_of: HeightOf) -> list[Row]:
        self.top = min(self.top, self.cursor)
        ending = self._at_end(height, height_of)
        if not ending or self.top >= ending[0].start:
            return ending
        self.fills_upwards = False
        shown = _fitting(self.rows.forward(self.top, height), height, height_of)
        if shown and shown[-1].start < self.cursor:
            above = self.rows.backward(self.cursor, height)
            return self._upwards(above + self.rows.forward(self.cursor, 1), height, height_of)
        return shown

    def _upwards(self, rows: list[Row], height: int, height_of: HeightOf) -> list[Row]:
        """The last of ``rows``, which fill the height together with what is cut of the first."""
        self.fills_upwards = True
        count = len(_fitting(reversed(rows), height, height_of))
        lines = sum(map(height_of, rows[len(rows) - count :]))
        return rows[-(count + 1 if lines < height else count) :]


def _fitting(rows: Iterable[Row], height: int, height_of: HeightOf) -> list[Row]:
    """The first rows that fit together, one at least."""
    found: list[Row] = []
    for row in rows:
        height -= height_of(row)
        if height < 0 and found:
            break
        found.append(row)
    return found
