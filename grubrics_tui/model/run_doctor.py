"""Diagnose the run on the screen, for threads."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.base.errors import UsageError
from engine.findings.finding import Finding
from engine.runs.rundir import RunDir
from engine.runs.state import RunState
from grubrics_tui.model.run_source import Watched

if TYPE_CHECKING:
    from engine.history.columns import Columns

_FIRST_S, _LOOK_S, _LIVE_SHARE, _ASKED_SHARE = 1.0, 5.0, 0.003, 0.02
"""Delay of the first look, shortest interval, and the share of a core that looks may use: less on
the live view, more while the findings are shown. The first look reads everything, so its cost does
not count."""


@dataclass(frozen=True)
class Diagnosis:
    """Root causes first. ``lineage`` is what they say of the run that this one was made from;
    ``trouble`` why nothing could be looked at."""

    findings: Sequence[Finding] = ()
    lineage: str = ""
    trouble: str = ""


class RunDoctor:
    """The live view passes on what it has read; a thread asks for findings.

    An external log is read again for the diagnosis, after the live view has read its history, so
    that the two do not compete.
    """

    def __init__(self, run: Watched) -> None:
        self._run = run
        self._left = threading.Event()
        self._called = threading.Event()
        """Look now: the run has ended, or the screen closes."""
        self._has_ended = False
        self._seen: tuple[RunState, Columns] | None = None
        self._due = 0.0

    def tell(self, state: RunState, columns: Columns) -> None:
        """Pass on an update; ``columns`` belong to the screen and keep growing."""
        now = time.monotonic()
        if now >= self._due or state.has_ended:
            self._due = now + _LOOK_S / 2
            self._seen = (state, columns.frozen())
        if state.has_ended and not self._has_ended:
            self._called.set()
        self._has_ended = state.has_ended

    def leave(self) -> None:
        self._left.set()
        self._called.set()

    def findings(self) -> Iterator[Sequence[Finding]]:
        """Yield the findings whenever they change, until ``leave``. Blocks: for a thread."""
        while not self._left.wait(_FIRST_S) and self._seen is None:
            pass
        look, before, share = _live_look(self._run), None, 1.0
        while not self._left.is_set():
            self._called.clear()
            started, seen = time.thread_time(), self._seen
            found = None
            if seen is not None:
                with suppress(Exception):  # The folder is being deleted, or a rule fails.
                    found = look(*seen, self._left.is_set)
            if found is not None and found != before and not self._left.is_set():
                yield found
                before = found
            cost, share = (time.thread_time() - started) / share, _LIVE_SHARE
            if not self._left.is_set():
                self._called.wait(max(_LOOK_S, cost))


def _live_look(
    run: Watched,
) -> Callable[[RunState, Columns, Callable[[], bool]], Sequence[Finding]]:
    # The rules are imported after the first screen is drawn.
    if isinstance(run, RunDir):
        from engine.doctor.live import LiveDoctor

        return LiveDoctor(run).look
    from engine.doctor.log_doctor import LogDoctor, source_of_external

    log = LogDoctor(source_of_external(run))
    return lambda state, columns, stopped: log.look(stopped)


def diagnoses(run: Watched, left: threading.Event) -> Iterator[Diagnosis]:
    """Yield the diagnosis of a run or an external log whenever it changes, until ``left`` is set.

    Blocks: for a thread.
    """
    look, before, share = _looker(run, left.is_set), None, 1.0
    while not left.is_set():
        started = time.thread_time()
        try:
            found = look()
        except (OSError, UsageError) as error:
            found = Diagnosis(trouble=str(error))
        except Exception as error:  # A failing rule must not leave the screen waiting.
            found = Diagnosis(trouble=f"{type(error).__name__}: {error}")
        if found != before and not left.is_set():
            yield found
        before = found
        cost, share = (time.thread_time() - started) / share, _ASKED_SHARE
        left.wait(max(_LOOK_S, cost))


def _looker(run: Watched, stopped: Callable[[], bool]) -> Callable[[], Diagnosis]:
    if isinstance(run, RunDir):
        from engine.doctor.live import RunFollower
        from engine.launch.lineage import Lineage

        doctor, lineage = RunFollower(run), Lineage(run)

        def look() -> Diagnosis:
            state, found = doctor.look(stopped)
            return Diagnosis(found, lineage.describe(state, found, stopped))

        return look
    from engine.doctor.log_doctor import LogDoctor, source_of_external

    log = LogDoctor(source_of_external(run))
    return lambda: Diagnosis(log.look(stopped))
