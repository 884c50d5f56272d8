"""The real program in a real pseudo-terminal, and the screen a person would see."""

from __future__ import annotations

import os
import re
import signal
import termios
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import pexpect
import psutil
import pyte

from tests.waiting import PATIENCE_S

_PIECE = 1024
"""Bytes. What stood on the screen for a moment is seen, although it is read long after."""


class Terminal:
    """Runs a command at a fixed size; ``pyte`` interprets what it draws."""

    def __init__(
        self,
        command: Sequence[str],
        cwd: Path,
        env: Mapping[str, str],
        columns: int = 120,
        rows: int = 40,
    ) -> None:
        self._screen = pyte.Screen(columns, rows)
        self._stream = pyte.ByteStream(self._screen)
        self.received = bytearray()
        """All that the program has written so far."""
        self._child = pexpect.spawn(
            command[0],
            list(command[1:]),
            cwd=str(cwd),
            env={**os.environ, **env, "TERM": "xterm-256color", "COLORTERM": "truecolor"},
            dimensions=(rows, columns),
            timeout=5,
        )

    def text(self) -> str:
        """The screen now."""
        *_, last = self._pictures()
        return last

    def press(self, *keys: str) -> None:
        """Type keys; control sequences as a terminal would send them."""
        for key in keys:
            self._child.send(key)
            time.sleep(0.15)

    def wait_for(self, pattern: str, seconds: float = PATIENCE_S) -> str:
        """The screen once ``pattern`` is on it; fails with the screen when it never is."""
        deadline = time.monotonic() + seconds
        while True:
            goes_on, pictures = self._child.isalive(), list(self._pictures())
            if picture := _shown(pattern, pictures):
                return picture
            assert goes_on, f"the program ended early:\n{pictures[-1]}"
            assert time.monotonic() < deadline, f"{pattern} did not appear:\n{pictures[-1]}"
            time.sleep(0.1)

    def wait_until(self, condition: Callable[[], object], seconds: float = PATIENCE_S) -> None:
        """Read what the program writes until ``condition`` holds."""
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, f"it did not happen in time:\n{self.text()}"
            self.text()

    def wait_for_exit(self, seconds: float = PATIENCE_S) -> int | None:
        deadline = time.monotonic() + seconds
        while self._child.isalive() and time.monotonic() < deadline:
            self.text()
            time.sleep(0.05)
        self.text()  # Its last words.
        self._child.close()
        code: int | None = self._child.exitstatus
        return code

    def has_ended(self) -> bool:
        return not self._child.isalive()

    def echoes(self) -> bool:
        """Whether the terminal shows what is typed, as it does for a shell."""
        return bool(termios.tcgetattr(self._child.child_fd)[3] & termios.ECHO)

    def pause(self) -> None:
        """What ``kill -STOP`` and ``kill -CONT`` do."""
        self._child.kill(signal.SIGSTOP)
        self.carry_on()

    def is_stopped(self) -> bool:
        return psutil.Process(self._child.pid).status() == psutil.STATUS_STOPPED

    def carry_on(self) -> None:
        """What ``fg`` does."""
        self._child.kill(signal.SIGCONT)

    def kill(self) -> None:
        """SIGKILL to the program: it gets no chance to say goodbye."""
        self._child.kill(signal.SIGKILL)
        self._child.wait()

    def close(self) -> None:
        try:
            self._child.close(force=True)
        except pexpect.ExceptionPexpect:
            # It was killed, but pexpect waits only a tenth of a second for its end.
            self._child.wait()

    def _pictures(self) -> Iterator[str]:
        """The screen as the last look left it, and after each piece that was written since."""
        yield self._picture()
        while True:
            try:
                written = self._child.read_nonblocking(_PIECE, timeout=0.05)
            except (pexpect.TIMEOUT, pexpect.EOF):
                return
            self.received += written
            self._stream.feed(written)
            yield self._picture()

    def _picture(self) -> str:
        return "\n".join(line.rstrip() for line in self._screen.display)


def _shown(pattern: str, pictures: Sequence[str]) -> str | None:
    """The last picture with ``pattern``: of what was on the screen before, only what still is."""
    matching = [picture for picture in pictures if re.search(pattern, picture)]
    gone = matching and matching[0] is pictures[0] and matching[-1] is not pictures[-1]
    return matching[-1] if matching and not gone else None
