"""The list of the home screen: sections of runs, of which one is selected."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from textual import events
from textual.geometry import Region
from textual.message import Message

from engine.doctor.health import Health
from engine.runs.columns import RunInfo
from grubrics_tui.drawing.spans import Row
from grubrics_tui.model.news import News
from grubrics_tui.screens.home.news_rows import Line, draw_news
from grubrics_tui.widgets.scroll_text import ScrollText


class NewsList(ScrollText):
    """The selected run stays selected while others come and go."""

    class Highlighted(Message):
        """Another run is selected."""

    class Opened(Message):
        """The selected run was clicked."""

    def __init__(self, health_of: Callable[[RunInfo], Health | None]) -> None:
        super().__init__()
        self.border_title, self.border_subtitle = "Home", "reading the runs ..."
        self.add_class("-current")
        self._health_of = health_of
        self._news: News | None = None
        self._lines: Sequence[Line] = ()
        self._index = 0

    @property
    def selected(self) -> RunInfo | None:
        return self._shown[self._index] if self._index < len(self._shown) else None

    @property
    def _shown(self) -> Sequence[RunInfo]:
        return () if self._news is None else self._news.shown

    def fill(self, news: News) -> None:
        selected = self.selected
        self._news = news
        ids = [run.id for run in news.shown]
        self._index = ids.index(selected.id) if selected is not None and selected.id in ids else 0
        self.border_subtitle = f"{news.total} run{'' if news.total == 1 else 's'}"
        self.draw_again()
        self.post_message(self.Highlighted())

    def draw_again(self) -> None:
        """Draw the same runs: the time or their health has changed."""
        self.show(self._rows_of, keep_scroll=True)

    def select(self, index: int) -> None:
        """Select a run by its index; the nearest one if there is no run at it."""
        self._index = max(0, min(index, len(self._shown) - 1))
        self.draw_again()
        own = [y for y, line in enumerate(self._lines) if line.index == self._index]
        if own:
            # The heading above the first run too.
            top = 0 if self._index == 0 else own[0]
            region = Region(0, top, 1, own[-1] - top + 1)
            self.scroll_to_region(region, animate=False, immediate=True)
        self.post_message(self.Highlighted())

    def go(self, index: int) -> None:
        """Select by the index from the start, or a negative one from the end."""
        self.select(index if index >= 0 else len(self._shown) + index)

    def move(self, rows: int) -> None:
        self.select(self._index + rows)

    def on_click(self, event: events.Click) -> None:
        inside = event.get_content_offset(self)
        y = None if inside is None else round(self.scroll_offset.y) + inside.y
        if y is None or y >= len(self._lines) or (index := self._lines[y].index) is None:
            return
        is_second_click = index == self._index
        self.select(index)
        if is_second_click:
            self.post_message(self.Opened())

    def _rows_of(self, width: int) -> list[Row]:
        if self._news is not None:
            self._lines = draw_news(self._news, self._health_of, width, self._index)
        return [line.row for line in self._lines]
