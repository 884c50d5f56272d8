"""Print results: text that cannot control the terminal for people, JSON for programs."""

from __future__ import annotations

import errno
import json
import logging
import os
import shutil
import signal
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TextIO

from engine.base.errors import find_lost_reader
from engine.base.masking import mask_data
from engine.base.typed import to_json
from grubrics_tui.text.terminal_text import clean_text

_POLL_S = 0.3


def on_terminal() -> bool:
    """Whether stdin and stdout are a terminal; a command may be started with both closed."""
    return all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stdout))


def confirmed(question: str) -> bool:
    """Ask a question on the terminal; only ``y`` or ``yes`` is a yes."""
    return input(f"{question} [y/N] ").strip().lower() in ("y", "yes")


def terminal_width() -> int | None:
    """Return the columns of the terminal; None if stdout is a file or a pipe."""
    if sys.stdout is None or not sys.stdout.isatty():
        return None
    return shutil.get_terminal_size().columns


def cut_lines(lines: Iterable[str]) -> Iterable[str]:
    """Cut lines to the width of the terminal; a file or a pipe gets them completely."""
    width = terminal_width()
    if width is None:
        return lines
    from rich.cells import cell_len, set_cell_size

    return (
        line if cell_len(line) <= width else f"{set_cell_size(line, width - 1)}…" for line in lines
    )


def answer(value: Any, text: str, as_json: bool) -> None:
    """Print the result of a command: ``value`` as JSON, or ``text``."""
    if as_json:
        print_json(value)
    else:
        say(text)


def say(text: str, *, to: TextIO | None = None, flush: bool = False) -> None:
    """Print text for people, without the escape sequences that a quoted file may contain."""
    print(clean_text(text), file=to, flush=flush)


def warn(warnings: Iterable[str]) -> None:
    """Print each warning on stderr."""
    for warning in warnings:
        say(f"warning: {warning}", to=sys.stderr, flush=True)


def warn_of_unread_parquet() -> None:
    """Warn on stderr if parquet files were needed, but pyarrow cannot be imported."""
    from engine.base.parquet import import_failure

    if (error := import_failure()) is not None:
        warn([f"parquet files were not read: {error} [fix: {error.fix}]"])


def print_json(value: Any) -> None:
    """Print a record, or a value with records in it, as one line of JSON with secrets masked.

    Every non-printable character is escaped; JSON itself asks for that only in part.
    """
    text = json.dumps(mask_data(to_json(value)), ensure_ascii=False)
    for char in () if text.isprintable() else set(text):
        if not char.isprintable():
            text = text.replace(char, json.dumps(char)[1:-1])
    print(text, flush=True)


def wait_for_more(seconds: float = _POLL_S) -> None:
    """Wait before what a command follows is read again. OSError if nobody reads its output."""
    time.sleep(seconds)
    if (reason := find_lost_reader(sys.stdout)) is not None:
        number = errno.EPIPE if reason == signal.SIGPIPE else errno.EIO
        raise OSError(number, os.strerror(number))


@contextmanager
def judge_log_hidden() -> Iterator[None]:
    """Do not print what the judge logs about failed calls: the command's answer reports them.

    Without any handler, ``logging`` would print warnings to stderr.
    """
    logger, handler = logging.getLogger("engine.reward.judge"), logging.NullHandler()
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
