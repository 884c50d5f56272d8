"""What a follower prints: the output of the run that it follows, and lines of its own."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from engine.base import files


class LogCopy:
    """Copies what is new in a growing file, each byte once."""

    def __init__(self, path: Path, out: int) -> None:
        self.path = path
        self.offset = 0
        self._out = out

    def copy(self) -> None:
        """Copy new bytes. Errors (no file yet, full disk) are left to the next call."""
        # Opened each time: otherwise a network file system does not look for new bytes.
        with contextlib.suppress(OSError), files.open_regular(self.path) as source:
            source.seek(self.offset)
            while block := source.read(1 << 20):
                self._write(block)

    def _write(self, block: bytes) -> None:
        while block:
            written = os.write(self._out, block)
            self.offset += written
            block = block[written:]


def say(text: str) -> None:
    with contextlib.suppress(OSError):  # a full disk
        print(text, flush=True)
