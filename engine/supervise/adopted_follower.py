"""The local process of an adopted run: ``... RUN_DIR``.

The supervisor treats it like any trainer. It copies the logs of the program to the console log,
ends the program when a stop is requested, and ends when the program does. Without a request it
ends no process that it did not start: a signal alone, as from a machine that shuts down, ends only
the supervision.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from contextlib import suppress
from functools import partial
from pathlib import Path

from engine.base.follow import Tail
from engine.base.quantities import format_time
from engine.logs.formats.pulse import QUIET_S, Pulse
from engine.logs.formats.wandb_folders import EndWatch
from engine.run.events import pending_stop
from engine.run.identity import Identity
from engine.run.manifest import Adopted
from engine.run.processes import alive, end, ignores, send, tree
from engine.run.run import Run
from engine.run.state import recorded_state
from engine.supervise.follower import LOOK_S, Follower, Outcome, Report

TREE_S = 2.0
TERMINATE_S = 3.0
"""Shorter than the supervisor waits between SIGTERM and SIGKILL."""
ABANDONED_S = 24 * 3600.0
"""A log that has not grown for so long is followed no longer."""
DONE_S = 600.0
"""A log that has its last step may be quiet for so long while its program saves and evaluates."""
_AT_ONCE = 2 << 20
_LONGEST_REST = 1 << 20


def main(arguments: list[str]) -> int:
    run = Run(Path(arguments[0]))
    adopted = run.read_manifest().adopted
    if adopted is None:
        print(f"{run.manifest_file}: not an adopted run", file=sys.stderr)
        return 1
    return AdoptedFollower(run, adopted, sys.stdout.fileno()).follow()


class AdoptedFollower(Follower):
    """One program, from its adoption to its end."""

    def __init__(self, run: Run, adopted: Adopted, out: int) -> None:
        super().__init__(run.attempt(1).path, Report(adopted.where))
        self._run, self._adopted = run, adopted
        self._console = LineCopy(tuple(map(Path, adopted.logs)), out)
        self._supervisor = os.getppid()
        path = Path(adopted.path) if adopted.path else None
        self._pulse = Pulse(path) if path else None
        self._ending = EndWatch(path) if path and path.suffix == ".wandb" else None
        self._exit_code: int | None = None
        self._missing_since: float | None = None
        self._known: set[Identity] = set()
        """The processes of the program so far: a child outlives its parent under another one."""
        self._tree_due = 0.0

    def follow(self) -> int:
        """Return 0 after the end of the program or of the supervision, as its exit code is unknown
        unless its files have it."""
        self.listen()
        while not self.signals and self._console.copy():
            pass
        # What is copied by now was there before the adoption: it tells nothing about durations.
        self.tell()
        while not self.signals:
            if os.getppid() != self._supervisor:
                return 1  # Nobody would notice an end any more; the run is lost.
            is_behind = self._console.copy()
            self.flush()
            process = self._adopted.process
            look = self._see_files if process is None else partial(self._see_process, process)
            self.troubles.survive("see whether its program runs", look)
            if self._exit_code is not None:
                return self._exit_code
            if not is_behind:
                time.sleep(LOOK_S)
        while self._exit_code is None:
            if not self.troubles.survive("end its program", self._obey):
                time.sleep(LOOK_S)
        return self._exit_code

    def _see_process(self, process: Identity) -> None:
        if alive(process):
            if time.monotonic() >= self._tree_due:
                self._known.update(tree(process))
                self._tree_due = time.monotonic() + TREE_S
            return
        left = sorted(other.pid for other in self._known if alive(other))
        pids = ", ".join(map(str, left[:5]))
        rest = f" and left {pids} running" if left else ""
        self._end(0, "unknown", f"process {process.pid} ended with an unknown exit code{rest}")

    def _see_files(self) -> None:
        assert self._pulse is not None
        quiet_s, now = self._pulse.quiet_s(), time.monotonic()
        if quiet_s is None:
            self._missing_since = self._missing_since or now
            if now - self._missing_since > QUIET_S:
                self._end(0, "unknown", f"{self._adopted.where} is gone")
            return
        self._missing_since = None
        since = time.time() - quiet_s
        if self._ending is not None and (code := self._ending.poll()) is not None:
            self._end(code & 255, "exited", ended=since)
            return
        patience = ABANDONED_S if quiet_s < DONE_S or not self._is_done() else DONE_S
        if quiet_s > patience and not self._console.is_behind():
            reason = f"quiet since {format_time(since)}; how it ended is unknown"
            self._end(0, "unknown", reason, ended=since)
            return
        is_quiet = quiet_s > QUIET_S
        if is_quiet != (self.report.quiet is not None):
            self.tell(quiet=f"quiet since {format_time(since)}" if is_quiet else None)

    def _is_done(self) -> bool:
        """Whether the log has its last step, as the supervisor reads it."""
        state = recorded_state(self._run)
        total = state.total_steps if state else None
        return state is not None and total is not None and (state.step or 0) >= total

    def _obey(self) -> None:
        request, process = pending_stop(self._run), self._adopted.process
        if request is None or request.detach or process is None:
            by = "a signal" if request is None else request.by
            self._end(0, "left", f"supervision of {self.report.where} was ended by {by}")
            return
        self._known.update(tree(process))
        # A shell starts what it puts into the background with SIGINT ignored.
        is_heard = not ignores(process, signal.SIGINT) and send(process, signal.SIGINT)
        while is_heard and alive(process) and len(self.signals) < 2:
            self._console.copy()
            time.sleep(LOOK_S / 5)
        while remaining := self._remaining(process):
            end(remaining, TERMINATE_S)
            if stuck := self._remaining(process):
                pids = ", ".join(str(other.pid) for other in stuck)
                self._end(1, "left", f"{self.report.where}: SIGKILL did not end {pids}")
                return
        self._end(128 + signal.SIGINT, "stopped")

    def _remaining(self, process: Identity) -> list[Identity]:
        """The processes of the program, and what they started, that are still there."""
        self._known.update(*map(tree, [process, *self._known]))
        return [other for other in self._known if alive(other)]

    def _end(
        self, code: int, outcome: Outcome, reason: str | None = None, ended: float | None = None
    ) -> None:
        while self._console.copy():
            pass
        self._console.copy_rest()
        self._exit_code = self.end(code, outcome, reason, ended=ended)


class LineCopy:
    """Copies the complete lines of growing files, each once.

    The lines of several files, as of stdout and stderr, do not mix within a line.
    """

    def __init__(self, paths: tuple[Path, ...], out: int) -> None:
        self._tails = [Tail(path, ends_at_return=True) for path in paths]
        self._out = out
        self._pending = b""

    def copy(self) -> bool:
        """Copy a part of what is new; whether there is more. A full disk loses nothing."""
        has_news = False
        for tail in self._tails:
            if not self._write():
                return False
            self._pending = tail.block(_AT_ONCE)
            has_news = has_news or bool(self._pending)
        return self._write() and has_news and self.is_behind()

    def is_behind(self) -> bool:
        return any(tail.behind() > _LONGEST_REST for tail in self._tails)

    def copy_rest(self) -> None:
        """Copy the last lines without an end, once no more will come."""
        for tail in self._tails:
            if rest := tail.unread(_LONGEST_REST):
                self._pending += rest + b"\n"
        self._write()

    def _write(self) -> bool:
        """Whether everything that was read is written."""
        with suppress(OSError):
            while self._pending:
                self._pending = self._pending[os.write(self._out, self._pending) :]
        return not self._pending


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
