"""Progress of a command, on stderr."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

from engine.base.quantities import format_count, format_duration
from grubrics_tui.text.terminal_text import clean_text

_QUIET_S = 30.0
"""Seconds between two lines of progress in a file or pipe."""
_PATIENCE_S = 2.0
"""Who reads fewer seconds prints no progress."""
_REDRAW_S = 0.2


class ProgressLine:
    """Progress on stderr. A terminal gets one line, written again when it changes; a file or pipe
    gets a line when the subject changes and every 30 s."""

    def __init__(self, to: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._to, self._clock, self._is_terminal = to, clock, to.isatty()
        self._started = self._printed = clock()
        self._text, self._subject, self._ended = "", "", False

    def show(self, text: str, subject: str = "", *, ended: bool = False) -> None:
        """``ended``: the line is complete, and what comes next begins another one."""
        text = clean_text(f"{text}, {subject}" if subject else text)
        if self._is_terminal:
            self._rewrite(text, ended)
        elif self._is_due(text, subject, ended):
            elapsed = self._clock() - self._started
            print(f"{text} ({format_duration(elapsed)})", file=self._to, flush=True)
            self._printed = self._clock()
        else:
            return
        self._text, self._subject, self._ended = text, subject, ended

    def _rewrite(self, text: str, ended: bool) -> None:
        if text == self._text and ended == self._ended:
            return
        shown = text.ljust(len(self._text))
        self._to.write(f"\r{shown}\n" if ended else f"\r{shown}")
        self._to.flush()

    def _is_due(self, text: str, subject: str, ended: bool) -> bool:
        if not self._text or self._clock() - self._printed >= _QUIET_S:
            return True
        return subject != self._subject or (ended and not self._ended)


@contextmanager
def record_progress(
    as_json: bool, clock: Callable[[], float] = time.monotonic
) -> Iterator[Callable[[int, str], None]]:
    """Give a function that reports how many records were read, and of which source.

    It can be called for every record. When the block ends, so does the line.
    """
    line, due = ProgressLine(sys.stderr, clock), clock() + _PATIENCE_S
    is_shown, latest = False, (0, "")

    def show(*, ended: bool = False) -> None:
        line.show(format_count(latest[0], "record"), latest[1], ended=ended)

    def report(read: int, source: str) -> None:
        nonlocal due, latest, is_shown
        latest = read, source
        if (now := clock()) >= due:
            due, is_shown = now + _REDRAW_S, True
            show()

    try:
        yield (lambda read, source: None) if as_json else report
    finally:
        if is_shown:
            show(ended=True)
