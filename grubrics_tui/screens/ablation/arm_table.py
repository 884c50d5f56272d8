"""The arms of an ablation with a cursor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from textual import events
from textual.message import Message

from grubrics_tui.drawing.arms import draw_arms
from grubrics_tui.drawing.spans import Row
from grubrics_tui.widgets.span_widget import SpanWidget

if TYPE_CHECKING:
    from engine.ablations.table import ArmRow


class ArmTable(SpanWidget):
    """The heading stays above the rows; the selected arm stays selected in another order."""

    class Moved(Message):
        """Another arm is selected."""

    def __init__(self) -> None:
        super().__init__()
        self._rows: Sequence[ArmRow] = ()
        self._problems: Mapping[str, str] = {}
        self._cursor = self._top = 0

    @property
    def selected(self) -> ArmRow | None:
        return self._rows[self._cursor] if self._cursor < len(self._rows) else None

    def show(self, rows: Sequence[ArmRow], problems: Mapping[str, str], hint: str = "") -> None:
        """``problems``: by run, what the doctor found."""
        before = self.selected.name if self.selected else None
        names = [row.name for row in rows]
        self._rows, self._problems = rows, problems
        self._cursor = names.index(before) if before in names else 0
        self.redraw(hint)

    def move(self, rows: int) -> None:
        self._cursor = max(0, min(self._cursor + rows, len(self._rows) - 1))
        self.redraw()
        self.post_message(self.Moved())

    def on_click(self, event: events.Click) -> None:
        if 1 <= event.y <= len(self._rows):
            self.move(self._top + event.y - 1 - self._cursor)

    def draw(self, width: int, height: int) -> list[Row]:
        if not self._rows:
            return []
        head, *lines = draw_arms(self._rows, self._cursor, width, self._problems)
        room = max(1, height - 1)
        self._top = max(0, min(self._top, self._cursor), self._cursor - room + 1)
        return [head, *lines[self._top : self._top + room]]
