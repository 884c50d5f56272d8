"""Options and arguments that several commands take."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from grubrics_tui.commands.shared.completions import (
    complete_config,
    complete_override,
    complete_run,
    complete_source,
)


def argument(metavar: str, help: str, **more: Any) -> Any:
    """What a command takes by its place, for ``Annotated``."""
    return typer.Argument(metavar=metavar, help=help, **more)


def option(metavar: str, help: str, *names: str, **more: Any) -> Any:
    """An option with a value, for ``Annotated``. ``names``: if not that of the parameter."""
    return typer.Option(*names, metavar=metavar, help=help, **more)


def flag(help: str, *names: str) -> Any:
    """An option without a value; without ``names``, with a ``--no-NAME`` beside it."""
    return typer.Option(*names, help=help)


RunArgument = Annotated[
    str,
    typer.Argument(
        metavar="RUN", help="Run ID, unique prefix, or directory", autocompletion=complete_run
    ),
]
RunOrLogArgument = Annotated[
    str,
    typer.Argument(
        metavar="RUN|PATH",
        help="Run ID, unique prefix or directory, or an external log or its folder; - for stdin",
        autocompletion=complete_run,
    ),
]
CONFIG_HELP = "Config: a name in configs/, a packaged one, or a path"
ConfigArgument = Annotated[
    str, typer.Argument(metavar="CONFIG", help=CONFIG_HELP, autocompletion=complete_config)
]
SourceArgument = Annotated[
    str,
    typer.Argument(
        metavar="CONFIG|RUN",
        help="Config (name or path), or run (ID, unique prefix, directory)",
        autocompletion=complete_source,
    ),
]
OverridesArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[KEY=VALUE...]",
        help="Overrides, e.g. lr=1e-5 or trainer.total_training_steps=50",
        autocompletion=complete_override,
    ),
]

RunsOption = Annotated[
    str | None,
    typer.Option(
        "--runs", metavar="DIR", help="Directory of runs (default: $GRUBRICS_RUNS, else ./runs)"
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the result as JSON")]
FormatOption = Annotated[
    str | None,
    typer.Option(
        "--as",
        "--metrics",
        metavar="FORMAT|PATTERN",
        help="Format of an external log, or a pattern of its lines, e.g. "
        r"'iter (?P<step>\d+): loss (?P<loss>\S+)' (default: detected from content)",
    ),
]
DryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="Print the launch plan; launch nothing")
]
AfterOption = Annotated[
    str | None,
    typer.Option(
        metavar="RUN",
        help="Start after RUN finishes; fail without starting if RUN does not",
        autocompletion=complete_run,
    ),
]
QueueOption = Annotated[
    bool,
    typer.Option(
        "--queue",
        help="Queue the run until enough GPUs are free (on CPU: until no other run is active)",
    ),
]
TrustOption = Annotated[
    bool,
    typer.Option(
        "--trust", help="Accept a run or config that other users could have written; shows it first"
    ),
]
