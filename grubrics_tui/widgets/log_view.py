"""A log file of any size: followed, searched and filtered without blocking the screen."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Literal

from textual import work

from engine.logs.log_file import LogFile, LogFollower, LogUpdate
from engine.logs.log_query import Query
from engine.logs.log_rows import ChosenLines, LogWindow, Rows
from engine.logs.log_scan import Found, Job
from engine.logs.log_survey import Survey
from grubrics_tui.model.log_search import LogScan, LogSearch
from grubrics_tui.model.poller import Poller
from grubrics_tui.widgets.log_picture import LogPicture

_POLL_S, _QUIET_POLL_S = 0.1, 0.25
"""Pauses of the thread while the file grows, and while it does not."""
_PACED_POLL_S = 1.0
"""Poll interval of a paced view, which is also polled by its screen."""

Way = Literal[1, -1]


class LogView(LogPicture):
    """Follows a file in a thread; filters, folds and searches it, and goes to places in it.

    ``surveyed`` finds the line numbers, steps, errors and sources of the whole file, in another
    process that starts once the end of the file is on the screen. A ``paced`` view has no thread:
    its screen calls ``poll``, so that what changes together is drawn together.
    """

    def __init__(
        self,
        path: Path | None = None,
        *,
        surveyed: bool = False,
        paced: bool = False,
        indent: int | None = None,
        id: str | None = None,
    ) -> None:
        super().__init__(marks_end=surveyed, indent=indent, id=id)
        self.path = path
        self.notice = ""
        self.folded = True
        self.filter: LogSearch | None = None
        self._is_surveyed = surveyed
        self._next_queries: list[Query | None] = []
        """Filter and search to start in the next file that is opened."""
        self._awaits_hit = False
        self._awaits_step: int | None = None
        self._survey_scan: LogScan | None = None
        self._is_paced = paced
        self._follower: LogFollower | None = None
        self._poller: Poller[None] = Poller()

    # -- the file ---------------------------------------------------------------------------

    def on_mount(self) -> None:
        if self._is_paced:
            self.set_interval(_PACED_POLL_S, self.poll)
        if self.path is not None:
            self._follow(self.path)

    def on_unmount(self) -> None:
        self._poller.close()
        self._stop_scans()

    def open(self, path: Path) -> None:
        """Show another file with the same search and filter, but without a source filter.
        Does nothing if the file is shown already."""
        if path != self.path:
            self._next_queries = [
                Query(search.query.patterns) if search else None
                for search in (self.filter, self.search)
            ]
            self._stop_scans()
            self.path, self.file, self.window, self.notice = path, None, None, ""
            self.survey = Survey()
            self.redraw()
            self._follow(path)

    def poll(self) -> None:
        """Read what was added to the file of a ``paced`` view."""
        if self._follower is not None and (update := self._follower.poll()).change:
            self._take_over(self._follower.path, update)

    def _follow(self, path: Path) -> None:
        if self._is_paced:
            self._follower = LogFollower(path)
            self.poll()
        else:
            self._poller.close()
            self._poller = Poller()
            self._keep_polling(path, self._poller)

    @work(thread=True, group="follow", exit_on_error=False)
    def _keep_polling(self, path: Path, poller: Poller[None]) -> None:
        follower, pause = LogFollower(path), _POLL_S
        poller.wake()
        for _ in poller.rounds():
            update = follower.poll()
            pause = _POLL_S if update.change else min(_QUIET_POLL_S, pause * 1.25)
            if update.change:
                self.call_later(self._take_over, path, update)
            poller.next_in(pause)

    def _take_over(self, path: Path, update: LogUpdate) -> None:
        """Show what has changed in the file at ``path``."""
        file = update.file
        if path != self.path or file is None:
            return
        if update.change == "deleted":
            self.notice = "the file was deleted; this is its last content"
        if file is not self.file:
            self._show_file(file, update)
        file.grow(update.size)
        assert self.window is not None
        self.window.size = file.size
        self.redraw()

    def _show_file(self, file: LogFile, update: LogUpdate) -> None:
        self.notice = {
            "truncated": "the file was truncated; reading it again",
            "replaced": "the log was rotated; this is the new file",
        }.get(update.change, "")
        queries = self._next_queries or [
            search.query if search else None for search in (self.filter, self.search)
        ]
        self._next_queries = []
        self._stop_scans()
        self.file, self.survey = file, Survey()
        self.window = LogWindow(Rows(file, folded=self.folded), file.size)
        self.forget_texts()
        if self._is_surveyed:
            # The end of the file comes first; two cores have enough to do with that.
            self.set_timer(0.25, partial(self._start_survey, file))
        self.filter = self._scan_for(queries[0])
        self.search = self._scan_for(queries[1])

    def _start_survey(self, file: LogFile) -> None:
        if file is self.file and self.is_attached:
            self._survey_scan = LogScan(
                file,
                Job(file.size),
                lambda pieces: self.call_later(self._add_to_survey, file, pieces),
            )

    def _add_to_survey(self, file: LogFile, pieces: list[Found]) -> None:
        if file is not self.file:
            return
        errors = len(self.survey.errors)
        for piece in pieces:
            self.survey.add(piece)
        if self._awaits_step is not None:
            self.go_to_step(self._awaits_step)
        if len(self.survey.errors) != errors:
            self.redraw()
        self.post_message(self.Changed())

    def _stop_scans(self) -> None:
        for scan in (self._survey_scan, self.search, self.filter):
            if scan is not None:
                scan.stop()
        self._survey_scan = self.search = self.filter = None
        self._awaits_hit, self._awaits_step = False, None

    # -- the position --------------------------------------------------------------------------

    def move(self, rows: int) -> None:
        """Move the cursor by rows; at the end it follows new lines again."""
        self._go(lambda window: window.move(rows))

    def move_page(self, way: Way) -> None:
        self.move(way * max(1, len(self._shown) - 1))

    def follow(self) -> None:
        """Go to the end and follow new lines."""
        self._go(LogWindow.go_to_end)

    def go_to_start(self) -> None:
        self.go_near(0)

    def go_near(self, offset: int) -> None:
        """Go to the line at this byte, or to the next one that the filter shows."""
        self._go(lambda window: window.go_to(offset, self.size.height))

    def go_to_offset(self, offset: int) -> None:
        """Go to the line at this byte; clears a filter that hides it."""
        if self.filter is not None and self.file is not None:
            start = self.file.line_start(min(offset, max(0, self.file.size - 1)))
            if not self.filter.hits.any_in(start, start + 1):
                self.set_filter(Query())
        self.go_near(offset)

    def go_to_line(self, number: int) -> bool:
        """False until the lines are counted."""
        offset = self.survey.offset_of_line(self.file, number) if self.file else None
        if offset is not None:
            self.go_to_offset(offset)
        return offset is not None

    def go_to_percent(self, percent: float) -> None:
        """Go to a percentage of the file, by bytes."""
        if self.file:
            offset = int(self.file.size * min(100.0, max(0.0, percent)) / 100)
            self.go_near(min(offset, max(0, self.file.size - 1)))

    def go_to_step(self, step: int) -> bool:
        """Go to the line that logs a step's metrics once it is found; False if there is none."""
        offset = self.survey.offset_of_step(step)
        self._awaits_step = None
        if offset is not None:
            self.go_to_offset(offset)
        elif self.survey.complete:
            return False
        else:
            self._awaits_step = step
        return True

    def go_to_error(self, way: Way) -> bool:
        """Go to the next line that raises or logs an error; False if none is known."""
        return self._go_to_next(self.survey.errors.at_or_after, self.survey.errors.before, way)

    def go_to_hit(self, way: Way) -> bool:
        """Go to the next hit of the search; False if there is none."""
        hits = self.search.hits if self.search else None
        return hits is not None and self._go_to_next(hits.at_or_after, hits.before, way)

    def go_around_to_hit(self, way: Way) -> bool:
        """Go to the first hit, or with ``way`` -1 to the last one; False if there is no other hit
        than the current line, or not all of them are known."""
        row, search, file = self.row_under_cursor(), self.search, self.file
        if row is None or search is None or search.running or file is None:
            return False
        offset = search.hits.at_or_after(0) if way > 0 else search.hits.before(file.size)
        if offset is None or row.start <= offset < row.end:
            return False
        self.go_to_offset(offset)
        return True

    def _go_to_next(
        self, below: Callable[[int], int | None], above: Callable[[int], int | None], way: Way
    ) -> bool:
        row = self.row_under_cursor()
        if row is None:
            return False
        offset = below(row.end) if way > 0 else above(row.start)
        if offset is not None:
            self.go_to_offset(offset)
        return offset is not None

    def _go(self, step: Callable[[LogWindow], object]) -> None:
        if self.window is not None:
            step(self.window)
            self.redraw()

    # -- search and filter ---------------------------------------------------------------------

    def set_search(self, query: Query) -> None:
        """Search, and go to the nearest hit; an empty query clears the search."""
        if self.search is not None:
            self.search.stop()
        self.search = self._scan_for(query)
        self._awaits_hit = self.search is not None
        self.redraw()

    def set_filter(self, query: Query) -> None:
        """Show only matching lines; an empty query shows all."""
        if self.filter is not None:
            self.filter.stop()
        self.filter = self._scan_for(query)
        self._apply_rows()

    def cancel(self) -> bool:
        """Stop a running search, else clear the search, else the filter; False if there is none."""
        running = [search for search in (self.search, self.filter) if search and search.running]
        for search in running:
            search.stop()
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
        self._apply_rows()

    def _scan_for(self, query: Query | None) -> LogSearch | None:
        """Start a search in the file; None without a file or for an empty query."""
        if self.file is None or not query:
            return None
        search = LogSearch(query, Job(self.cursor, upwards_first=self.following, query=query))
        search.start(self.file, lambda pieces: self.call_later(self._add_hits, search, pieces))
        return search

    def _add_hits(self, search: LogSearch, pieces: list[Found]) -> None:
        if search is not self.search and search is not self.filter:
            return
        search.add(pieces)
        if search is self.search and self._awaits_hit and (hit := search.first()) is not None:
            self._awaits_hit = False
            self.go_to_offset(hit)
        self.redraw()

    def _apply_rows(self) -> None:
        """Apply folding and filter; the current line stays visible."""
        if self.file is None or self.window is None:
            return
        lines = ChosenLines(self.file, self.filter.hits) if self.filter else None
        self.window.turn_to(Rows(self.file, lines, folded=self.folded))
        if not self.following:
            self.window.go_to(self.cursor, self.size.height)
        self.redraw()
