"""Standard input as a log: ``-`` in place of a path."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event, Thread

from engine.base.errors import UsageError

STANDARD_INPUT = "-"


class StandardInput:
    """Copies standard input to a temporary file, which readers of logs can follow as it grows.

    With ``keyboard``, the terminal becomes the standard input, so that a screen can read its keys.
    UsageError if nothing is piped in, or there is no terminal.
    """

    def __init__(self, *, keyboard: bool = False) -> None:
        if sys.stdin is None or sys.stdin.isatty():
            raise UsageError(
                "'-' is standard input, and nothing is piped in: train.sh | grubrics-tui watch -"
            )
        self._pipe = os.dup(sys.stdin.fileno())
        if keyboard:
            _take_terminal()
        self._folder = TemporaryDirectory(prefix="grubrics-tui-")
        self.path = Path(self._folder.name) / "stdin"
        self.path.touch()
        self.has_ended = Event()
        Thread(target=self._copy, daemon=True).start()

    @contextmanager
    def named(self) -> Iterator[None]:
        """Name standard input in errors, not the temporary file."""
        try:
            yield
        except UsageError as error:
            raise UsageError(str(error).replace(str(self.path), "stdin")) from error

    def _copy(self) -> None:
        try:
            with (
                open(self._pipe, "rb", buffering=0) as source,  # noqa: PTH123 (a descriptor)
                self.path.open("wb", buffering=0) as target,
            ):
                shutil.copyfileobj(source, target)
        finally:
            self.has_ended.set()


def _take_terminal() -> None:
    try:
        terminal = os.open("/dev/tty", os.O_RDWR)
    except OSError as error:
        raise UsageError(f"'-' on the screen needs a terminal: {error.strerror}") from error
    os.dup2(terminal, 0)
    os.close(terminal)


@contextmanager
def standard_input_read(names: Sequence[str]) -> Iterator[list[str]]:
    """The names with ``-`` replaced by the path of a file with all of standard input.

    UsageError for more than one ``-``.
    """
    if STANDARD_INPUT not in names:
        yield list(names)
        return
    if list(names).count(STANDARD_INPUT) > 1:
        raise UsageError("'-' is given twice; standard input can be read once")
    source = StandardInput()
    source.has_ended.wait()
    with source.named():
        yield [str(source.path) if name == STANDARD_INPUT else name for name in names]
