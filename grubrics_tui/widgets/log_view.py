"""A log file of any size: followed, searched and filtered while the screen stays quick."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Literal

from rich.segment import Segment
from rich.style import Style
from textual import on, work
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget
from textual.worker import get_current_worker

from engine.watch.log_file import LogFile
from engine.watch.log_follow import LogFollow, Look
from engine.watch.log_query import Query, highlighter
from engine.watch.log_rows import ChosenLines, Row, Rows
from engine.watch.log_scan import Found, Job
from engine.watch.log_survey import Survey
from engine.watch.log_window import LogWindow
from engine.watch.offsets import Offsets
from grubrics_tui.console_text import ConsoleText, plain_line
from grubrics_tui.drawing.spans import Span
from grubrics_tui.log_hunt import Hunt
from grubrics_tui.scanning import Scanning
from grubrics_tui.widgets.log_scrollbar import scrollbar
from grubrics_tui.widgets.log_strips import FARTHEST, Looks, Marks, height_of, strips_of, text_of

_LOOK_S, _QUIET_LOOK_S = 0.1, 0.25
"""Between two looks at the file while it grows, and while it does not."""
_CACHED_TEXTS = 400
_COPIED_BYTES = 256 * 1024

Way = Literal[1, -1]


class LogView(Widget):
    """Draws the rows in sight, read when they are drawn; everything else happens in threads.

    ``surveyed`` finds the line numbers, steps, errors and sources of the whole file, in a process
    of its own that starts once the end of the file is on the screen.
    """

    DEFAULT_CSS = "LogView { height: 1fr; }"

    can_focus = False

    class Changed(Message):
        """The place, the file or what is known of it changed: a status line has to be redrawn."""

    class Looked(Message):
        def __init__(self, path: Path, look: Look) -> None:
            super().__init__()
            self.path, self.look = path, look

    class Surveyed(Message):
        def __init__(self, of: LogFile, found: list[Found]) -> None:
            super().__init__()
            self.of, self.found = of, found

    class Hunted(Message):
        def __init__(self, hunt: Hunt, found: list[Found]) -> None:
            super().__init__()
            self.hunt, self.found = hunt, found

    def __init__(
        self, path: Path | None = None, *, surveyed: bool = False, id: str | None = None
    ) -> None:
        super().__init__(id=id)
        self.path = path
        self.file: LogFile | None = None
        self.notice = ""
        self.folded, self.wrapped, self.left = True, False, 0
        self.survey = Survey()
        self.search: Hunt | None = None
        self.filter: Hunt | None = None
        self._is_surveyed = surveyed
        self._window: LogWindow | None = None
        self._strips: list[Strip] | None = None
        self._shown: list[Row] = []
        self._texts: dict[tuple[Row, int], ConsoleText] = {}
        self._styles: dict[tuple[str, str, bool], Style] = {}
        self._base = Style.null()
        self._awaits_hit = False
        self._awaits_step: int | None = None
        self._surveying: Scanning | None = None
        self._left_screen = threading.Event()

    # -- the file ---------------------------------------------------------------------------

    def on_mount(self) -> None:
        self.app.theme_changed_signal.subscribe(self, lambda _: self._recolour())
        if self.path is not None:
            self._follow(self.path)

    def on_unmount(self) -> None:
        self._left_screen.set()
        self._stop_scans()

    def open(self, path: Path) -> None:
        """Show another file; nothing happens when it is the one shown."""
        if path != self.path:
            self.path, self.file, self._window, self.notice = path, None, None, ""
            self._stop_scans()
            self._follow(path)

    @work(thread=True, exclusive=True, group="follow", exit_on_error=False)
    def _follow(self, path: Path) -> None:
        worker, follow = get_current_worker(), LogFollow(path)
        pause = _LOOK_S
        while not worker.is_cancelled and not self._left_screen.is_set():
            look = follow.look()
            pause = _LOOK_S if look.news else min(_QUIET_LOOK_S, pause * 1.25)
            if look.news:
                self.post_message(self.Looked(path, look))
            self._left_screen.wait(pause)

    @on(Looked)
    def _take(self, message: Looked) -> None:
        look, file = message.look, message.look.file
        if message.path != self.path or file is None:
            return
        if look.news == "deleted":
            self.notice = "the file was deleted: this is what it held"
        if file is not self.file:
            self._show_file(file, look)
        file.grow(max(look.size, 0))
        assert self._window is not None
        self._window.size = file.size
        self.redraw()

    def _show_file(self, file: LogFile, look: Look) -> None:
        self.notice = {
            "truncated": "the file was truncated: read again from its start",
            "rotated": "the log was rotated: this is the new file",
        }.get(look.news, "")
        queries = [hunt.query if hunt else None for hunt in (self.filter, self.search)]
        self._stop_scans()
        self.file, self.survey = file, Survey()
        self._window = LogWindow(Rows(file, folded=self.folded), file.size)
        self._texts.clear()
        if self._is_surveyed:
            # The end of the file comes first; two cores have enough to do with that.
            self.set_timer(0.25, partial(self._start_survey, file))
        if queries[0]:
            self._start_filter(queries[0])
        if queries[1]:
            self._start_search(queries[1], jump=False)

    def _start_survey(self, file: LogFile) -> None:
        if file is self.file and self.is_attached:
            job = Job(file.size)
            self._surveying = Scanning(
                file, job, lambda found: self.post_message(self.Surveyed(file, found))
            )

    @on(Surveyed)
    def _know(self, message: Surveyed) -> None:
        if message.of is not self.file:
            return
        errors = len(self.survey.errors)
        for found in message.found:
            self.survey.add(found)
        if self._awaits_step is not None:
            self.go_to_step(self._awaits_step)
        if len(self.survey.errors) != errors:
            self.redraw()
        self.post_message(self.Changed())

    def _stop_scans(self) -> None:
        for scan in (self._surveying, self.search, self.filter):
            if scan is not None:
                scan.stop()
        self._surveying = self.search = self.filter = None
        self._awaits_hit, self._awaits_step = False, None

    # -- where ------------------------------------------------------------------------------

    @property
    def following(self) -> bool:
        return self._window is None or self._window.following

    @property
    def cursor(self) -> int:
        """The byte at which the row under the cursor begins."""
        return self._window.cursor if self._window else 0

    def move(self, rows: int) -> None:
        """Move the cursor by rows; reaching the end follows it again."""
        self._go(lambda window: window.move(rows))

    def move_page(self, way: Way) -> None:
        self.move(way * max(1, len(self._shown) - 1))

    def follow(self) -> None:
        """Go to the end and stay there."""
        self._go(LogWindow.go_to_end)

    def go_to_start(self) -> None:
        self.go_to_offset(0)

    def go_to_offset(self, offset: int) -> None:
        """The cursor on the line that holds this byte; a filter that hides it is taken away."""
        if self.filter is not None and self.file is not None:
            start = self.file.line_start(min(offset, max(0, self.file.size - 1)))
            if not self.filter.hits.any_in(start, start + 1):
                self.set_filter(Query())
        self._go(lambda window: window.go_to(offset, self.size.height))

    def go_to_line(self, number: int) -> bool:
        """False as long as the lines are not counted."""
        place = self.survey.offset_of_line(self.file, number) if self.file else None
        if place is not None:
            self.go_to_offset(place)
        return place is not None

    def go_to_percent(self, percent: float) -> None:
        """By bytes, which is at once."""
        if self.file:
            place = int(self.file.size * min(100.0, max(0.0, percent)) / 100)
            self.go_to_offset(min(place, max(0, self.file.size - 1)))

    def go_to_step(self, step: int) -> bool:
        """The line that logs a step's metrics, as soon as it is found; False if there is none."""
        place = self.survey.offset_of_step(step)
        self._awaits_step = None
        if place is not None:
            self.go_to_offset(place)
        elif self.survey.complete:
            return False
        else:
            self._awaits_step = step
        return True

    def go_to_error(self, way: Way) -> bool:
        """The next line that raises or logs an error; False if none is known."""
        return self._go_to_next(self.survey.errors.at_or_after, self.survey.errors.before, way)

    def go_to_hit(self, way: Way) -> bool:
        """The next line that the search found; False if there is none."""
        hits = self.search.hits if self.search else None
        return hits is not None and self._go_to_next(hits.at_or_after, hits.before, way)

    def scroll_sideways(self, cells: int) -> None:
        self.left = max(0, min(FARTHEST, self.left + cells))
        self.redraw()

    def _go_to_next(
        self, below: Callable[[int], int | None], above: Callable[[int], int | None], way: Way
    ) -> bool:
        row = self._row()
        if row is None:
            return False
        place = below(row.end) if way > 0 else above(row.start)
        if place is not None:
            self.go_to_offset(place)
        return place is not None

    def _go(self, step: Callable[[LogWindow], object]) -> None:
        if self._window is not None:
            step(self._window)
            self.redraw()

    def _row(self) -> Row | None:
        rows = self._window.rows.forward(self.cursor, 1) if self._window else []
        return rows[0] if rows else None

    # -- what -------------------------------------------------------------------------------

    def set_search(self, query: Query) -> None:
        """Find lines, the nearest first, and go to it when it is found; an empty query ends it."""
        if self.search is not None:
            self.search.stop()
        self.search = None
        if query:
            self._start_search(query, jump=True)
        self.redraw()

    def set_filter(self, query: Query) -> None:
        """Show only lines that match; an empty query shows all."""
        if self.filter is not None:
            self.filter.stop()
        self.filter = None
        if query:
            self._start_filter(query)
        self._turn()

    def cancel(self) -> bool:
        """Stop what is running, or else end the search, or else the filter; False if none is."""
        running = [hunt for hunt in (self.search, self.filter) if hunt and hunt.running]
        for hunt in running:
            hunt.stop()
        if not running and self.search is not None:
            self.set_search(Query())
        elif not running and self.filter is not None:
            self.set_filter(Query())
        elif not running:
            return False
        self.redraw()
        return True

    def toggle_fold(self) -> None:
        self.folded = not self.folded
        self._turn()

    def toggle_wrap(self) -> None:
        self.wrapped = not self.wrapped
        self.left = 0
        self.redraw()

    def line_under_cursor(self) -> str | None:
        """The text of a line; of a very long one, as much as a clipboard takes."""
        row = self._row()
        if row is None or self.file is None:
            return None
        end = min(row.shown.end, row.shown.start + _COPIED_BYTES)
        return plain_line(self.file.read(row.shown.start, end))

    def _start_search(self, query: Query, *, jump: bool) -> None:
        if self.file is not None:
            self.search = self._hunt(query)
            self._awaits_hit = jump

    def _start_filter(self, query: Query) -> None:
        if self.file is not None:
            self.filter = self._hunt(query)

    def _hunt(self, query: Query) -> Hunt:
        assert self.file is not None
        hunt = Hunt(query, Job(self.cursor, upwards_first=self.following, query=query))
        hunt.scanning = Scanning(
            self.file, hunt.job, lambda found: self.post_message(self.Hunted(hunt, found))
        )
        return hunt

    @on(Hunted)
    def _find(self, message: Hunted) -> None:
        hunt = message.hunt
        if hunt is not self.search and hunt is not self.filter:
            return
        hunt.add(message.found)
        if hunt is self.search and self._awaits_hit and (place := hunt.first()) is not None:
            self._awaits_hit = False
            self.go_to_offset(place)
        self.redraw()

    def _turn(self) -> None:
        """Show the rows that folding and filtering ask for, around the same line."""
        if self.file is None or self._window is None:
            return
        lines = ChosenLines(self.file, self.filter.hits) if self.filter else None
        self._window.turn_to(Rows(self.file, lines, folded=self.folded))
        if not self.following:
            self._window.go_to(self.cursor, self.size.height)
        self.redraw()

    # -- drawing ----------------------------------------------------------------------------

    def on_resize(self) -> None:
        self.redraw()

    def _recolour(self) -> None:
        self._styles.clear()
        self.redraw()

    def redraw(self) -> None:
        self._strips = None
        self.refresh()
        self.post_message(self.Changed())

    def render_line(self, y: int) -> Strip:
        if self._strips is None:
            self._strips = self._draw()
        if y < len(self._strips):
            return self._strips[y]
        return Strip.blank(self.size.width, self.rich_style)

    def _draw(self) -> list[Strip]:
        width, height = self.size
        if self._window is None or self.file is None or width < 4:
            return []
        base = self.rich_style
        if base != self._base:
            self._base = base
            self._styles.clear()
        search = self.search
        pattern = highlighter(search.query.patterns[0]) if search else None
        looks = Looks(
            width - 1, self.left, self.wrapped, max(1, height - 1), self._ascii_only, pattern
        )
        if len(self._texts) > _CACHED_TEXTS:
            self._texts.clear()
        self._shown = self._window.visible(height, lambda row: height_of(self._text(row), looks))
        lines = [
            strip
            for row in self._shown
            for strip in strips_of(self._text(row), row, self._marks(row), looks, self._style)
        ]
        lines = lines[-height:] if self._window.fills_upwards else lines[:height]
        bar = self._scrollbar(height)
        blank = Strip.blank(width - 1, base)
        lines += [blank] * (height - len(lines))
        return [Strip([*line, bar[y]], width) for y, line in enumerate(lines)]

    @property
    def _ascii_only(self) -> bool:
        return bool(getattr(self.app, "ascii_only", False))

    def _text(self, row: Row) -> ConsoleText:
        assert self.file is not None
        key = (row, self.left)
        if key not in self._texts:
            self._texts[key] = text_of(self.file, row, self.left)
        return self._texts[key]

    def _marks(self, row: Row) -> Marks:
        is_cursor = row.start <= self.cursor < row.end
        shows_cursor = self._is_surveyed or not self.following
        hit = self.search is not None and self.search.hits.any_in(row.start, row.end)
        return Marks(is_cursor and shows_cursor, hit)

    def _scrollbar(self, height: int) -> list[Segment]:
        assert self.file is not None
        seen = (self._shown[0].start, self._shown[-1].end) if self._shown else (0, 0)
        bar = scrollbar(
            self.file.size,
            seen,
            height,
            {"mark": self.search.hits if self.search else Offsets(), "error": self.survey.errors},
            ascii_only=self._ascii_only,
        )
        return [Segment(span.text, self._style(span)) for span in bar]

    def _style(self, span: Span) -> Style:
        key = (span.ink, span.paper, span.bold)
        if key not in self._styles:
            colours = self.app.theme_variables
            self._styles[key] = self._base + Style(
                color=colours.get(span.ink or "foreground"),
                bgcolor=colours.get(span.paper),
                bold=span.bold or None,
            )
        return self._styles[key]
