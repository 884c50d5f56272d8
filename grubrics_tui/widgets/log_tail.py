"""The last lines of a console, followed until a person scrolls."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from rich.segment import Segment
from rich.style import Style
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

from grubrics_tui.error_lines import is_error, split_actor

MAX_LINES = 5000


class LogTail(ScrollView):
    """Clean lines only; holds the last ``MAX_LINES`` of them and draws those in sight."""

    DEFAULT_CSS = "LogTail { height: 1fr; overflow-x: hidden; }"

    can_focus = False

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._lines: deque[str] = deque(maxlen=MAX_LINES)
        self.following = True

    def extend(self, lines: Iterable[str]) -> None:
        """Append lines and, while following, stay at the end."""
        self._lines.extend(lines)
        self.virtual_size = Size(self.size.width, len(self._lines))
        if self.following:
            self.follow()
        self.refresh()

    def follow(self) -> None:
        """Go to the end and stay there."""
        self.following = True
        self.scroll_end(animate=False, x_axis=False)

    def move(self, lines: int) -> None:
        """Scroll by lines; reaching the end follows it again."""
        self.scroll_relative(y=lines, animate=False, immediate=True, force=True)
        self.following = self.scroll_offset.y >= self.max_scroll_y

    def on_resize(self) -> None:
        if self.following:
            self.follow()

    def render_line(self, y: int) -> Strip:
        base = self.rich_style
        index = self.scroll_offset.y + y
        width = self.scrollable_content_region.width
        if index >= len(self._lines):
            return Strip.blank(width, base)
        strip = Strip(self._segments(self._lines[index], base))
        if strip.cell_length <= width:
            return strip.adjust_cell_length(width, base)
        return Strip([*strip.crop(0, width - 1), Segment("…", base + self._ink("quiet"))])

    def _segments(self, line: str, base: Style) -> list[Segment]:
        actor, text = split_actor(line)
        return [
            Segment(actor, base + self._ink("axis")),
            Segment(text, base + self._ink(_tone(text))),
        ]

    def _ink(self, role: str) -> Style:
        return Style(color=self.app.theme_variables.get(role))


def _tone(text: str) -> str:
    if is_error(text) or text.startswith("Traceback"):
        return "error"
    if "WARN" in text[:80]:
        return "warning"
    return "foreground"
