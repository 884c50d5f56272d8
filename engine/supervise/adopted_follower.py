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
from dataclasses import replace
from pathlib import Path

from engine.base.follow import Tail
from engine.base.text import clock
from engine.formats.pulse import QUIET_S, Pulse
from engine.formats.wandb_folders import EndWatch
from engine.runs.events import pending_stop
from engine.runs.processes import Identity, alive, end, ignores, send, tree
from engine.runs.rundir import RunDir
from engine.runs.state import recorded_state
from engine.supervise.adopted import Adopted, read_adopted
from engine.supervise.follower_report import Outcome, Report, write_report

LOOK_S = 0.25
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
    run = RunDir(Path(arguments[0]))
    adopted = read_adopted(run)
    if adopted is None:
        print(f"{run.manifest}: not an adopted run", file=sys.stderr)
        return 1
    return Follower(run, adopted, sys.stdout.fileno()).follow()


class Follower:
    """One program, from its adoption to its end."""

    def __init__(self, run: RunDir, adopted: Adopted, out: int) -> None:
        self._run, self._attempt = run, run.attempt(1).path
        self._adopted = adopted
        self._console = LineCopy(adopted.logs, out)
        self._signals: list[int] = []
        self._supervisor = os.getppid()
        self._pulse = Pulse(adopted.path) if adopted.path else None
        is_wandb = adopted.path is not None and adopted.path.suffix == ".wandb"
        self._ending = EndWatch(adopted.path) if is_wandb and adopted.path else None
        self._exit_code = 0
        self._missing_since: float | None = None
        self._known: set[Identity] = set()
        """The processes of the program so far: a child outlives its parent under another one."""
        self._tree_due = 0.0
        self._report = Report(adopted.where)

    def follow(self) -> int:
        """Return 0 after the end of the program or of the supervision, as its exit code is unknown
        unless its files have it."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda number, _frame: self._signals.append(number))
        while not self._signals and self._console.copy():
            pass
        # What is copied by now was there before the adoption: it tells nothing about durations.
        with suppress(OSError):
            write_report(self._attempt, self._report)
        while not self._signals:
            if os.getppid() != self._supervisor:
                return 1  # Nobody would notice an end any more; the run is lost.
            is_behind = self._console.copy()
            # What the system does not let be seen or written now is tried again.
            with suppress(OSError):
                if self._see_end():
                    return self._exit_code
            if not is_behind:
                time.sleep(LOOK_S)
        return self._obey()

    def _see_end(self) -> bool:
        process = self._adopted.process
        return self._see_files() if process is None else self._see_process(process)

    def _see_process(self, process: Identity) -> bool:
        if alive(process):
            if time.monotonic() >= self._tree_due:
                self._known.update(tree(process))
                self._tree_due = time.monotonic() + TREE_S
            return False
        left = sorted(other.pid for other in self._known if alive(other))
        pids = ", ".join(map(str, left[:5]))
        rest = f" and left {pids} running" if left else ""
        self._end("unknown", f"process {process.pid} ended with an unknown exit code{rest}")
        return True

    def _see_files(self) -> bool:
        assert self._pulse is not None
        quiet_s, now = self._pulse.quiet_s(), time.monotonic()
        if quiet_s is None:
            self._missing_since = self._missing_since or now
            if now - self._missing_since > QUIET_S:
                self._end("unknown", f"{self._adopted.where} is gone")
                return True
            return False
        self._missing_since = None
        since = time.time() - quiet_s
        if self._ending is not None and (code := self._ending.poll()) is not None:
            self._exit_code = code & 255
            self._end("exited", None, ended=since)
            return True
        patience = ABANDONED_S if quiet_s < DONE_S or not self._is_done() else DONE_S
        if quiet_s > patience and not self._console.is_behind():
            reason = f"quiet since {clock(since)}; how it ended is unknown"
            self._end("unknown", reason, ended=since)
            return True
        is_quiet = quiet_s > QUIET_S
        if is_quiet != (self._report.quiet is not None):
            quiet = f"quiet since {clock(since)}" if is_quiet else None
            self._report = replace(self._report, quiet=quiet)
            write_report(self._attempt, self._report)
        return False

    def _is_done(self) -> bool:
        """Whether the log has its last step, as the supervisor reads it."""
        state = recorded_state(self._run)
        total = state.total_steps if state else None
        return state is not None and total is not None and (state.step or 0) >= total

    def _obey(self) -> int:
        request, process = pending_stop(self._run), self._adopted.process
        if request is None or request.detach or process is None:
            by = "a signal" if request is None else request.by
            self._end("left", f"supervision of {self._report.where} was ended by {by}")
            return 0
        self._known.update(tree(process))
        # A shell starts what it puts into the background with SIGINT ignored.
        is_heard = not ignores(process, signal.SIGINT) and send(process, signal.SIGINT)
        while is_heard and alive(process) and len(self._signals) < 2:
            self._console.copy()
            time.sleep(LOOK_S / 5)
        while remaining := self._remaining(process):
            end(remaining, TERMINATE_S)
            if stuck := self._remaining(process):
                pids = ", ".join(str(other.pid) for other in stuck)
                self._end("left", f"{self._report.where}: SIGKILL did not end {pids}")
                return 1
        self._end("stopped", None)
        return 128 + signal.SIGINT

    def _remaining(self, process: Identity) -> list[Identity]:
        """The processes of the program, and what they started, that are still there."""
        self._known.update(*map(tree, [process, *self._known]))
        return [other for other in self._known if alive(other)]

    def _end(self, outcome: Outcome, reason: str | None, ended: float | None = None) -> None:
        while self._console.copy():
            pass
        if self._report.outcome is None:
            self._console.copy_rest()
        self._report = replace(
            self._report, outcome=outcome, reason=reason, quiet=None, ended=ended
        )
        write_report(self._attempt, self._report)


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
