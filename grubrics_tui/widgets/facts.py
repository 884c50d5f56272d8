"""A small table of labels and texts in a frame."""

from __future__ import annotations

from collections.abc import Sequence

from textual.content import Content
from textual.widgets import Static

from grubrics_tui.text.terminal_text import blanked
from grubrics_tui.widgets.no_markup import inert

Fact = tuple[str, str | Content]


class Facts(Static):
    """One fact per line with aligned labels; long texts wrap. Nothing is read as markup."""

    DEFAULT_CSS = """
    Facts {
        height: auto;
        border: round $line;
        border-title-color: $quiet;
        padding: 0 1;
    }
    """

    def __init__(self, title: str, *, id: str | None = None) -> None:
        super().__init__("", id=id, markup=False)
        self.border_title = title
        self._facts: Sequence[Fact] = ()

    def show(self, facts: Sequence[Fact]) -> None:
        self._facts = facts
        self._lay_out()

    def on_resize(self) -> None:
        self._lay_out()

    def _lay_out(self) -> None:
        widest = max((len(label) for label, _ in self._facts), default=0)
        gutter = widest + 2 if widest else 0
        room = max(10, self.size.width - gutter)
        lines: list[Content] = []
        for label, text in self._facts:
            for index, line in enumerate(inert(text).wrap(room) or [Content("")]):
                head = blanked(label) if index == 0 else ""
                lines.append(Content.styled(head.ljust(gutter), "$quiet") + line)
        self.update(Content("\n").join(lines))
