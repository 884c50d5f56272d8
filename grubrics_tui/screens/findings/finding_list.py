"""The findings of a run, root first, one line each."""

from __future__ import annotations

from collections.abc import Sequence

from textual.geometry import Region
from textual.message import Message

from engine.findings.finding import Finding
from grubrics_tui.drawing.findings import list_row
from grubrics_tui.drawing.spans import Row
from grubrics_tui.widgets.scroll_text import ScrollText


class FindingList(ScrollText):
    """The selected finding stays selected while others come and go."""

    class Highlighted(Message):
        """Another finding is selected, or the selected one says something else."""

    def __init__(self) -> None:
        super().__init__()
        self.border_title = "Findings"
        self.add_class("-current")
        self._findings: Sequence[Finding] = ()
        self._index = 0

    @property
    def findings(self) -> Sequence[Finding]:
        return self._findings

    @property
    def selected(self) -> Finding | None:
        return self._findings[self._index] if self._index < len(self._findings) else None

    def fill(self, findings: Sequence[Finding]) -> None:
        selected = self.selected
        self._findings = findings
        ids = [finding.id for finding in findings]
        self._index = ids.index(selected.id) if selected is not None and selected.id in ids else 0
        self._draw()

    def select(self, count: int) -> None:
        last = len(self._findings) - 1
        self._index = max(0, min(last, self._index + count))
        self._draw()

    def _draw(self) -> None:
        self.show(self._rows_of, keep_scroll=True)
        self.scroll_to_region(Region(0, self._index, 1, 1), animate=False, immediate=True)
        self.post_message(self.Highlighted())

    def _rows_of(self, width: int) -> list[Row]:
        return [
            list_row(finding, width, chosen=number == self._index)
            for number, finding in enumerate(self._findings)
        ]
