"""A log file of any size: followed, searched and filtered without blocking the screen."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Literal

from textual import on, work
from textual.message import Message
from textual.worker import get_current_worker

from engine.logs.log_file import LogFile, LogFollower, LogUpdate
from engine.logs.log_query import Query
from engine.logs.log_rows import ChosenLines, LogWindow, Rows
from engine.logs.log_scan import Found, Job
from engine.logs.log_survey import Survey
from grubrics_tui.model.log_scan_thread import LogScanThread
from grubrics_tui.model.log_search import LogSearch
from grubrics_tui.widgets.log_picture import LogPicture

_LOOK_S, _QUIET_LOOK_S = 0.1, 0.25
"""Poll intervals while the file grows, and while it does not."""
_UNASKED_S = 1.0
"""Poll interval of a paced view, which is told when to look."""

Way = Literal[1, -1]


class LogView(LogPicture):
    """Follows a file in a thread; filters, folds and searches it, and goes to places in it.

    ``surveyed`` finds the line numbers, steps, errors and sources of the whole file, in a process
    of its own that starts once the end of the file is on the screen. A ``paced`` view has no thread
    of its own and looks when it is told to: what changes together is then drawn together.
    """

    class Polled(Message):
        def __init__(self, path: Path, update: LogUpdate) -> None:
            super().__init__()
            self.path, self.update = path, update

    class Surveyed(Message):
        def __init__(self, of: LogFile, found: list[Found]) -> None:
            super().__init__()
            self.of, self.found = of, found

    class Hunted(Message):
        def __init__(self, hunt: LogSearch, found: list[Found]) -> None:
            super().__init__()
            self.hunt, self.found = hunt, found

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
        self._kept: list[Query | None] = []
        self._awaits_hit = False
        self._awaits_step: int | None = None
        self._surveying: LogScanThread | None = None
        self._is_paced = paced
        self._follower: LogFollower | None = None
        self._left_screen = threading.Event()

    # -- the file ---------------------------------------------------------------------------

    def on_mount(self) -> None:
        if self._is_paced:
            self.set_interval(_UNASKED_S, self.look_now)
        if self.path is not None:
            self._follow(self.path)

    def on_unmount(self) -> None:
        self._left_screen.set()
        self._stop_scans()

    def open(self, path: Path) -> None:
        """Show another file with the same search and filter, but without a source filter.
        Does nothing if the file is shown already."""
        if path != self.path:
            kept = [Query(hunt.query.patterns) if hunt else None for hunt in self._hunts]
            self._stop_scans()
            self.path, self.file, self.window, self.notice = path, None, None, ""
            self.survey, self._kept = Survey(), kept
            self.redraw()
            self._follow(path)

    def look_now(self) -> None:
        """Poll now: the file of a ``paced`` view may have changed."""
        if self._follower is not None and (update := self._follower.poll()).change:
            self._take(self.Polled(self._follower.path, update))

    def _follow(self, path: Path) -> None:
        if self._is_paced:
            self._follower = LogFollower(path)
            self.look_now()
        else:
            self._look_on(path)

    @work(thread=True, exclusive=True, group="follow", exit_on_error=False)
    def _look_on(self, path: Path) -> None:
        worker, follower = get_current_worker(), LogFollower(path)
        pause = _LOOK_S
        while not worker.is_cancelled and not self._left_screen.is_set():
            update = follower.poll()
            pause = _LOOK_S if update.change else min(_QUIET_LOOK_S, pause * 1.25)
            if update.change:
                self.post_message(self.Polled(path, update))
            self._left_screen.wait(pause)

    @on(Polled)
    def _take(self, message: Polled) -> None:
        update, file = message.update, message.update.file
        if message.path != self.path or file is None:
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
        queries = self._kept or [hunt.query if hunt else None for hunt in self._hunts]
        self._kept = []
        self._stop_scans()
        self.file, self.survey = file, Survey()
        self.window = LogWindow(Rows(file, folded=self.folded), file.size)
        self.forget_texts()
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
            self._surveying = LogScanThread(
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

    @property
    def _hunts(self) -> tuple[LogSearch | None, LogSearch | None]:
        return self.filter, self.search

    def _stop_scans(self) -> None:
        for scan in (self._surveying, self.search, self.filter):
            if scan is not None:
                scan.stop()
        self._surveying = self.search = self.filter = None
        self._awaits_hit, self._awaits_step = False, None

    # -- where ------------------------------------------------------------------------------

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
        place = self.survey.offset_of_line(self.file, number) if self.file else None
        if place is not None:
            self.go_to_offset(place)
        return place is not None

    def go_to_percent(self, percent: float) -> None:
        """Go to a percentage of the file, by bytes."""
        if self.file:
            place = int(self.file.size * min(100.0, max(0.0, percent)) / 100)
            self.go_near(min(place, max(0, self.file.size - 1)))

    def go_to_step(self, step: int) -> bool:
        """Go to the line that logs a step's metrics once it is found; False if there is none."""
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
        """Go to the next line that raises or logs an error; False if none is known."""
        return self._go_to_next(self.survey.errors.at_or_after, self.survey.errors.before, way)

    def go_to_hit(self, way: Way) -> bool:
        """Go to the next hit of the search; False if there is none."""
        hits = self.search.hits if self.search else None
        return hits is not None and self._go_to_next(hits.at_or_after, hits.before, way)

    def _go_to_next(
        self, below: Callable[[int], int | None], above: Callable[[int], int | None], way: Way
    ) -> bool:
        row = self.row_under_cursor()
        if row is None:
            return False
        place = below(row.end) if way > 0 else above(row.start)
        if place is not None:
            self.go_to_offset(place)
        return place is not None

    def _go(self, step: Callable[[LogWindow], object]) -> None:
        if self.window is not None:
            step(self.window)
            self.redraw()

    # -- what -------------------------------------------------------------------------------

    def set_search(self, query: Query) -> None:
        """Search, and go to the nearest hit; an empty query clears the search."""
        if self.search is not None:
            self.search.stop()
        self.search = None
        if query:
            self._start_search(query, jump=True)
        self.redraw()

    def set_filter(self, query: Query) -> None:
        """Show only matching lines; an empty query shows all."""
        if self.filter is not None:
            self.filter.stop()
        self.filter = None
        if query:
            self._start_filter(query)
        self._turn()

    def cancel(self) -> bool:
        """Stop a running search, else clear the search, else the filter; False if there is none."""
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

    def _start_search(self, query: Query, *, jump: bool) -> None:
        if self.file is not None:
            self.search = self._hunt(query)
            self._awaits_hit = jump

    def _start_filter(self, query: Query) -> None:
        if self.file is not None:
            self.filter = self._hunt(query)

    def _hunt(self, query: Query) -> LogSearch:
        assert self.file is not None
        hunt = LogSearch(query, Job(self.cursor, upwards_first=self.following, query=query))
        hunt.scanning = LogScanThread(
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
        """Apply folding and filter; the current line stays visible."""
        if self.file is None or self.window is None:
            return
        lines = ChosenLines(self.file, self.filter.hits) if self.filter else None
        self.window.turn_to(Rows(self.file, lines, folded=self.folded))
        if not self.following:
            self.window.go_to(self.cursor, self.size.height)
        self.redraw()
