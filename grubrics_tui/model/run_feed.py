"""The list of runs as it changes, cut down to what a filter asks for. For a thread of its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from engine.history.run_filter import RunFiles, RunFilter
from engine.runs.columns import RunInfo
from engine.runs.registry import list_runs

_POLL_S = 2.0
_PROGRESS_S = 0.3


@dataclass(frozen=True)
class Listing:
    """The runs that pass ``filter``, of ``total``; ``looked`` of them have been looked at so far.

    ``remark`` says why none may have passed.
    """

    runs: Sequence[RunInfo]
    total: int
    looked: int
    filter: str = ""
    remark: str | None = None


class RunFeed:
    """``listings`` waits for news in its thread; everything else may be called from any other."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._files = RunFiles(root)
        self._asked: tuple[str, RunFilter | None] = ("", None)
        self._wake, self._closed, self._stale = threading.Event(), False, True

    def ask(self, text: str) -> None:
        """Only runs that pass from now on. UsageError for a filter that makes no sense."""
        self._asked = (text, RunFilter(text) if text.strip() else None)
        self._wake.set()

    def look_now(self) -> None:
        """Do not wait: something was done to a run."""
        self._stale = True
        self._wake.set()

    def close(self) -> None:
        self._closed = True
        self._wake.set()

    def listings(self) -> Iterator[Listing]:
        """The list now and whenever another one would be shown, until the feed is closed."""
        runs: Sequence[RunInfo] = ()
        shown, due = None, 0.0
        while not self._closed:
            self._wake.clear()
            started = time.monotonic()
            if self._stale or started >= due:
                self._stale = False
                runs = list_runs(self._root)
                # A folder that takes long to read is read less often.
                due = time.monotonic() + max(_POLL_S, 10 * (time.monotonic() - started))
            for listing in self._filtered(runs):
                if (seen := _seen(listing)) != shown:
                    yield listing
                    shown = seen
            self._wake.wait(max(0.0, due - time.monotonic()))

    def _filtered(self, runs: Sequence[RunInfo]) -> Iterator[Listing]:
        """In parts while it takes long; given up when something else is asked for."""
        asked = self._asked
        text, chosen = asked
        if chosen is None:
            yield Listing(runs, len(runs), len(runs), text)
            return
        passed: list[RunInfo] = []
        told, now = time.monotonic(), time.time()
        for looked, run in enumerate(runs):
            if self._asked is not asked or self._closed:
                return
            if chosen.matches(run, self._files, now):
                passed.append(run)
            if time.monotonic() - told > _PROGRESS_S:
                told = time.monotonic()
                yield Listing(tuple(passed), len(runs), looked, text)
        remark = chosen.remark(self._files)
        yield Listing(passed, len(runs), len(runs), text, remark)


def _seen(listing: Listing) -> object:
    """What is shown of it: a heartbeat is not."""
    rows = [(i.id, i.state.evolve(heartbeat=None, beat=None), i.notes) for i in listing.runs]
    return rows, listing.total, listing.looked, listing.filter, listing.remark
