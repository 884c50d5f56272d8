"""Print answers: text for people with nothing that acts on the terminal, JSON for programs."""

from __future__ import annotations

import json
import logging
import shutil
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TextIO

from engine.base.masking import mask_data
from grubrics_tui.text.terminal_text import clean_text


def on_terminal() -> bool:
    """Whether a person sits there; a command may have been started with both closed."""
    return all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stdout))


def terminal_width() -> int | None:
    """Cells in a line where a person reads stdout; None for a file or a pipe."""
    if sys.stdout is None or not sys.stdout.isatty():
        return None
    return shutil.get_terminal_size().columns


def answer(value: dict[str, Any], text: str, as_json: bool) -> None:
    """Say what was done, to a person or to a program."""
    if as_json:
        print_json(value)
    else:
        say(text)


def say(text: str, *, to: TextIO | None = None, flush: bool = False) -> None:
    """Print for a person: whatever the text quotes, nothing of it acts on the terminal."""
    print(clean_text(text), file=to, flush=flush)


def print_json(value: dict[str, Any]) -> None:
    """One line. What a terminal would obey is escaped, which JSON only asks for in part.

    Secrets in it are masked.
    """
    text = json.dumps(mask_data(value), ensure_ascii=False)
    if not text.isprintable():
        text = "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in text)
    print(text, flush=True)


def warn(warnings: Iterable[str]) -> None:
    for warning in warnings:
        say(f"warning: {warning}", to=sys.stderr, flush=True)


@contextmanager
def quiet() -> Iterator[None]:
    """What a failed call logs is told in other words; unhandled it would be printed as it is."""
    logger, handler = logging.getLogger("engine.judge"), logging.NullHandler()
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
