"""Options and arguments that several commands take."""

from __future__ import annotations

from typing import Annotated

import typer

RunsOption = Annotated[
    str | None, typer.Option("--runs", help="Folder of runs [default: $GRUBRICS_RUNS or ./runs]")
]


JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout")]


FormatOption = Annotated[
    str | None,
    typer.Option("--as", metavar="FORMAT", help="Format of a foreign log [default: by content]"),
]


RunArgument = Annotated[str, typer.Argument(metavar="RUN", help="A run's id, or the start of it")]


ConfigArgument = Annotated[
    str, typer.Argument(metavar="CONFIG", help="A file, or the name of one in configs/")
]


OverridesArgument = Annotated[
    list[str] | None, typer.Argument(metavar="[key=value ...]", help="Changed values")
]


SourceArgument = Annotated[str, typer.Argument(metavar="RUN|CONFIG", help="A run, or a recipe")]


DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Show what would be launched")]


TrustOption = Annotated[
    bool,
    typer.Option(
        "--trust",
        help="Act on a run, or execute a recipe's code, that somebody else may have written, once "
        "it was shown",
    ),
]
