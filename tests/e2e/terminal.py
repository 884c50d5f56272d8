"""The real program in a real pseudo-terminal, and the screen a person would see."""

from __future__ import annotations

import os
import re
import signal
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pexpect
import pyte


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
        self._read()
        return "\n".join(line.rstrip() for line in self._screen.display)

    def press(self, *keys: str) -> None:
        """Type keys; control sequences as a terminal would send them."""
        for key in keys:
            self._child.send(key)
            time.sleep(0.15)

    def wait_for(self, pattern: str, seconds: float = 30.0) -> str:
        """The screen once ``pattern`` is on it; fails with the screen when it never is."""
        return self.wait_for_any(pattern, seconds=seconds)

    def wait_until(self, condition: Callable[[], object], seconds: float = 30.0) -> None:
        """Read what the program writes until ``condition`` holds."""
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, f"it did not happen in time:\n{self.text()}"
            self._read()

    def wait_for_any(self, *patterns: str, seconds: float = 30.0) -> str:
        deadline = time.monotonic() + seconds
        while True:
            screen = self.text()
            if any(re.search(pattern, screen) for pattern in patterns):
                return screen
            assert self._child.isalive(), f"the program ended early:\n{screen}"
            assert time.monotonic() < deadline, f"{patterns} did not appear:\n{screen}"
            time.sleep(0.1)

    def wait_for_exit(self, seconds: float = 20.0) -> int | None:
        deadline = time.monotonic() + seconds
        while self._child.isalive() and time.monotonic() < deadline:
            self._read()
            time.sleep(0.05)
        self._child.close()
        code: int | None = self._child.exitstatus
        return code

    def echoes(self) -> bool:
        """Whether the terminal shows what is typed, as it does for a shell."""
        return bool(termios.tcgetattr(self._child.child_fd)[3] & termios.ECHO)

    def pause(self) -> None:
        """What ``kill -STOP`` and ``kill -CONT`` do."""
        self._child.kill(signal.SIGSTOP)
        self._child.kill(signal.SIGCONT)

    def kill(self) -> None:
        """SIGKILL to the program: it gets no chance to say goodbye."""
        self._child.kill(signal.SIGKILL)
        self._child.wait()

    def close(self) -> None:
        self._child.close(force=True)

    def _read(self) -> None:
        while True:
            try:
                written = self._child.read_nonblocking(65536, timeout=0.05)
            except (pexpect.TIMEOUT, pexpect.EOF):
                return
            self.received += written
            self._stream.feed(written)
