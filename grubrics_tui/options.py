"""What the commands have in common: options, arguments, and how they answer."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

RunsOption = Annotated[
    str | None, typer.Option("--runs", help="Folder of runs [default: $GRUBRICS_RUNS or ./runs]")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout")]
RunArgument = Annotated[str, typer.Argument(help="A run's id, or the start of it")]


def answer(value: dict[str, Any], text: str, as_json: bool) -> None:
    """Say what was done, to a person or to a program."""
    if as_json:
        print_json(value)
    else:
        print(text)


def print_json(value: dict[str, Any]) -> None:
    print(json.dumps(value, ensure_ascii=False), flush=True)
