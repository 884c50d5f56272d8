"""The list of runs as it changes, cut down to those that pass a filter."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from engine.doctor.health import HealthBook, format_health
from engine.run.columns import RunRow
from engine.run.history.run_filter import RunFiles, RunFilter
from engine.run.registry import list_runs
from grubrics_tui.model.poller import Pace, Poller

_POLL_S, _POLL_SHARE = 2.0, 0.1
"""Shortest pause between two readings of the folder, and the share of the time they may take."""
_PROGRESS_S = 0.3


@dataclass(frozen=True)
class Listing:
    """The runs that pass ``filter``, of ``total``; ``searched`` of them were compared with it.

    ``remark`` says why no run may have passed; ``error`` why the folder cannot be read.
    """

    runs: Sequence[RunRow]
    total: int
    searched: int
    filter: str = ""
    remark: str | None = None
    error: str | None = None


class RunFeed:
    """``listings`` blocks its thread; everything else may be called from any thread."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._files = RunFiles(root)
        self._book = HealthBook(root)
        self._poller: Poller[tuple[str, RunFilter | None]] = Poller()
        self._is_outdated = True
        self.filter("")

    def filter(self, text: str) -> None:
        """Show only runs that pass from now on. UsageError for a filter with a mistake."""
        self._poller.ask((text, RunFilter(text) if text.strip() else None))

    def refresh(self) -> None:
        """Read the folder now: a run was changed."""
        self._is_outdated = True
        self._poller.wake()

    def close(self) -> None:
        self._poller.close()

    def listings(self) -> Iterator[Listing]:
        """Yield the list now and whenever it looks different, until the feed is closed."""
        runs: Sequence[RunRow] = ()
        error: str | None = None
        shown, due, pace = None, 0.0, Pace(_POLL_S, _POLL_SHARE)
        for text, run_filter in self._poller.rounds():
            started = time.monotonic()
            if self._is_outdated or started >= due:
                self._is_outdated = False
                try:
                    runs, error = list_runs(self._root), None
                except OSError as raised:
                    runs, error = (), f"{raised.filename or self._root}: {raised.strerror}"
                read = time.monotonic()
                due = read + pace.pause(read - started)
            unread = [Listing((), 0, 0, text, error=error)] if error else None
            for listing in unread or self._filtered(runs, text, run_filter):
                if (visible := _visible(listing)) != shown:
                    yield listing
                    shown = visible
            self._poller.next_in(max(0.0, due - time.monotonic()))

    def _filtered(
        self, runs: Sequence[RunRow], text: str, run_filter: RunFilter | None
    ) -> Iterator[Listing]:
        """Yield parts while it takes long; give up when another filter is set."""
        if run_filter is None:
            yield Listing(runs, len(runs), len(runs), text)
            return
        passed: list[RunRow] = []
        yielded, now = time.monotonic(), time.time()
        for searched, run in enumerate(runs):
            if self._poller.is_stale():
                return
            if run_filter.asks_health:
                health = self._book.examine(run, self._poller.is_stale)
                run = msgspec.structs.replace(run, health=format_health(health))
            if run_filter.matches(run, self._files, now):
                passed.append(run)
            if time.monotonic() - yielded > _PROGRESS_S:
                yielded = time.monotonic()
                yield Listing(tuple(passed), len(runs), searched, text)
        yield Listing(passed, len(runs), len(runs), text, run_filter.remark(self._files))


def _visible(listing: Listing) -> object:
    """What the screen shows of a listing: a heartbeat is not shown."""
    runs = [(i.id, i.state.evolve(heartbeat=None, beat=None), i.notes) for i in listing.runs]
    return runs, replace(listing, runs=())
