"""What the commands have in common: options, arguments, and how they answer."""

from __future__ import annotations

import json
import shutil
import sys
from typing import Annotated, Any, TextIO

import typer

from engine.base.masking import mask_data
from grubrics_tui.text.terminal_text import clean_text

RunsOption = Annotated[
    str | None, typer.Option("--runs", help="Folder of runs [default: $GRUBRICS_RUNS or ./runs]")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout")]
FormatOption = Annotated[
    str | None,
    typer.Option("--as", metavar="FORMAT", help="Format of a foreign log [default: by content]"),
]
RunArgument = Annotated[str, typer.Argument(metavar="RUN", help="A run's id, or the start of it")]


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
