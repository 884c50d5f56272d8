"""A real pseudo-terminal for benchmarks: what a person would see of any program, and when."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

import psutil
import pyte

# Questions that programs ask a terminal at their start, and wait for the answer of.
_ANSWERS = {
    b"\x1b[6n": b"\x1b[1;1R",
    b"\x1b[c": b"\x1b[?62;c",
    b"\x1b[0c": b"\x1b[?62;c",
    b"\x1b]11;?": b"\x1b]11;rgb:0000/0000/0000\x1b\\",
}
# pyte takes these for something else: kitty's keyboard protocol, mode reports.
_UNKNOWN = re.compile(rb"\x1b\[[<>=?][0-9;]*[uc$p]+")


class Terminal:
    """A program in a terminal of its own; its screen is emulated as it is drawn."""

    def __init__(self, command: Sequence[str], columns: int = 120, rows: int = 40) -> None:
        self._screen = pyte.Screen(columns, rows)
        self._stream = pyte.ByteStream(self._screen)
        self.started = time.monotonic()
        self.bytes = 0
        self.pid, self._fd = pty.fork()
        if self.pid == 0:
            os.environ.update(TERM="xterm-256color", COLORTERM="truecolor")
            os.execvp(command[0], list(command))
        fcntl.ioctl(self._fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        for process in reversed(self.processes()):
            with suppress(psutil.Error):
                process.send_signal(signal.SIGKILL)
        os.close(self._fd)
        os.waitpid(self.pid, 0)

    @property
    def text(self) -> str:
        return "\n".join(self._screen.display)

    def pump(self, seconds: float) -> None:
        """Draw what arrives within so many seconds."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            if select.select([self._fd], [], [], left)[0] and not self._draw():
                return

    def send(self, keys: str) -> None:
        os.write(self._fd, keys.encode())

    def wait(self, seen: str | Callable[[str], object], timeout: float = 60) -> float | None:
        """Seconds from now until the screen shows it; None when it never does."""
        start, pattern = time.monotonic(), re.compile(seen) if isinstance(seen, str) else None
        test = pattern.search if pattern else seen
        while (now := time.monotonic()) - start < timeout:
            assert callable(test)
            if test(self.text):
                return now - start
            self.pump(0.005)
        return None

    def processes(self) -> list[psutil.Process]:
        with suppress(psutil.Error):
            top = psutil.Process(self.pid)
            return [top, *top.children(recursive=True)]
        return []

    def memory(self) -> float:
        """MiB held by the program and what it started, shared pages counted once."""
        total = 0.0
        for process in self.processes():
            with suppress(psutil.Error):
                total += process.memory_full_info().pss / 2**20
        return total

    def cpu(self, seconds: float) -> tuple[float, float]:
        """Percent of a core and bytes a second to the terminal while nothing is typed."""
        before, drawn, start = self.cpu_seconds(), self.bytes, time.monotonic()
        self.pump(seconds)
        took = time.monotonic() - start
        return 100 * (self.cpu_seconds() - before) / took, (self.bytes - drawn) / took

    def cpu_seconds(self) -> float:
        """User and system seconds of the program and what it started, ended programs included."""
        total = 0.0
        for process in self.processes():
            with suppress(psutil.Error):
                times = process.cpu_times()
                total += times.user + times.system + times.children_user + times.children_system
        return total

    def _draw(self) -> bool:
        try:
            data = os.read(self._fd, 65536)
        except OSError:
            return False
        self.bytes += len(data)
        for question, answer in _ANSWERS.items():
            if question in data:
                os.write(self._fd, answer)
        with suppress(Exception):  # The emulator's own trouble is no measurement.
            self._stream.feed(_UNKNOWN.sub(b"", data))
        return bool(data)
