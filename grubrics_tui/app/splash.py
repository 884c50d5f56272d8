"""The screen while the program is being imported: the newest values and the panels' frames."""

from __future__ import annotations

from collections.abc import Sequence

from grubrics_tui.drawing.run_head import RunValues, draw_run_head
from grubrics_tui.drawing.spans import Row, Span
from grubrics_tui.settings.layout import panel_title, room_for
from grubrics_tui.widgets.span_widget import SpanWidget

_HEADER, _TABS, _FOOTER, _MARGIN = 3, 1, 1, 1
_INDENT = 2


class Splash(SpanWidget):
    """The first view of a run, before anything that draws values is imported."""

    def __init__(self) -> None:
        super().__init__()
        self._run_id, self._kind, self._names = "", "", list[str]()
        self._values: RunValues | None = None

    def show(self, run_id: str, kind: str, values: RunValues, names: Sequence[str]) -> None:
        """Show the values and the panels of this run, whose layout is that of ``kind``."""
        self._run_id, self._kind, self._names = run_id, kind, list(names)
        self._values = values
        self.redraw()

    def clear(self) -> None:
        self._values = None
        self.redraw()

    def draw(self, width: int, height: int) -> list[Row]:
        if self._values is None:
            return []
        lines = draw_run_head(
            self._run_id,
            self._kind,
            self._values,
            width - 2 * _INDENT,
            ascii_only=self.ascii_only,
        )
        head: list[Row] = [[Span(" " * _INDENT), *line] for line in lines]
        wide, room = width - 2 * _MARGIN, height - _HEADER - _FOOTER
        columns, rows = room_for(wide, room)
        if columns * rows < len(self._names):
            columns, rows = room_for(wide, room - _TABS)
            head, room = [*head, []], room - _TABS
        return head + frames(self._names[: columns * rows], columns, wide, room)


def frames(names: Sequence[str], columns: int, width: int, height: int) -> list[Row]:
    """Boxes with these titles, side by side."""
    count = -(-len(names) // columns)
    lines: list[Row] = []
    for row in range(count):
        titles = names[row * columns : (row + 1) * columns]
        tall = (row + 1) * height // count - row * height // count
        edges = [column * width // columns for column in range(len(titles))]
        sizes = [end - start for start, end in zip(edges, [*edges[1:], width], strict=True)]
        boxes = [
            _box(row * columns + column + 1, title, size, tall)
            for column, (title, size) in enumerate(zip(titles, sizes, strict=True))
        ]
        lines += [
            [Span(" "), *(span for part in parts for span in part)]
            for parts in zip(*boxes, strict=True)
        ]
    return lines


def _box(number: int, name: str, width: int, height: int) -> list[Row]:
    title = f" {number} {panel_title(name)} "[: max(0, width - 4)]
    edge = "─" * (width - 3 - len(title))
    top = [Span("╭─", "line"), Span(title, "quiet"), Span(f"{edge}╮", "line")]
    side = [Span(f"│{' ' * (width - 2)}│", "line")]
    bottom = [Span(f"╰{'─' * (width - 2)}╯", "line")]
    return [top, *([side] * max(0, height - 2)), bottom]
