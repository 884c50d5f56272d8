"""The doctor of the run on the screen, in threads of its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from textual.message import Message

from engine.doctor.finding import Finding
from engine.errors import UsageError
from engine.runs.rundir import RunDir
from engine.runs.state import RunState
from grubrics_tui.watched import Watched

if TYPE_CHECKING:
    from engine.watch.columns import Columns

_FIRST_S, _LOOK_S, _LIVE_SHARE, _ASKED_SHARE = 1.0, 5.0, 0.003, 0.02
"""The first picture comes first. A look that takes longer is taken less often: it may cost this
share of a core, and more while a person reads the answer."""


@dataclass(frozen=True)
class Diagnosis:
    """Root causes first. ``kin`` is what they say of the run that this one was made from;
    ``trouble`` why nothing could be looked at."""

    findings: Sequence[Finding] = ()
    kin: str = ""
    trouble: str = ""


def post_from_thread(
    source: Callable[[], Iterator[Message]], post: Callable[[Message], bool]
) -> None:
    """Post what ``source`` gives. Nobody waits for the thread: the screen must close at once,
    however many gigabytes are being read."""

    def work() -> None:
        with suppress(RuntimeError):  # The app has ended meanwhile.
            for message in source():
                post(message)

    threading.Thread(target=work, daemon=True).start()


class RunDoctor:
    """The live screen tells it what it has read; a thread asks it for findings."""

    def __init__(self, run: RunDir) -> None:
        self._run = run
        self._left = threading.Event()
        self._seen: tuple[RunState, Columns] | None = None
        self._due = 0.0

    def tell(self, state: RunState, columns: Columns) -> None:
        """Called by the screen with each update; ``columns`` are its own and go on growing."""
        now = time.monotonic()
        if now >= self._due or state.has_ended:
            self._due = now + _LOOK_S / 2
            self._seen = (state, columns.frozen())

    def leave(self) -> None:
        self._left.set()

    def findings(self) -> Iterator[Sequence[Finding]]:
        """Every change, until ``leave``. Blocks: for a thread."""
        from engine.doctor.live import LiveDoctor  # Its rules are read after the first picture.

        self._left.wait(_FIRST_S)
        doctor, before = LiveDoctor(self._run), None
        while not self._left.is_set():
            started, seen = time.thread_time(), self._seen
            found = None
            if seen is not None:
                with suppress(Exception):  # A folder that is being deleted, a rule that breaks.
                    found = doctor.look(*seen, self._left.is_set)
            if found is not None and found != before and not self._left.is_set():
                yield found
                before = found
            self._left.wait(max(_LOOK_S, (time.thread_time() - started) / _LIVE_SHARE))


def diagnoses(run: Watched, left: threading.Event) -> Iterator[Diagnosis]:
    """Every change of what the doctor says of a run or a foreign log, until somebody ``left``.

    Blocks: for a thread.
    """
    look, before = _looker(run, left.is_set), None
    while not left.is_set():
        started = time.thread_time()
        try:
            found = look()
        except (OSError, UsageError) as error:
            found = Diagnosis(trouble=str(error))
        except Exception as error:  # A rule that breaks must not leave the screen waiting.
            found = Diagnosis(trouble=f"{type(error).__name__}: {error}")
        if found != before and not left.is_set():
            yield found
        before = found
        left.wait(max(_LOOK_S, (time.thread_time() - started) / _ASKED_SHARE))


def _looker(run: Watched, stopped: Callable[[], bool]) -> Callable[[], Diagnosis]:
    if isinstance(run, RunDir):
        from engine.doctor.live import RunFollower
        from engine.launch.kin import Kin

        doctor, kin = RunFollower(run), Kin(run)

        def look() -> Diagnosis:
            state, found = doctor.look(stopped)
            return Diagnosis(found, kin.told(state, found, stopped))

        return look
    from engine.doctor.diagnose import diagnose_file

    path = run.console or run.path
    return lambda: Diagnosis(diagnose_file(path))
