"""The command line: options of the program itself, and the commands of ``commands``.

Every action of the TUI has a command. A command is imported when it is called, so that starting
stays quick and needs no Textual.
"""

from __future__ import annotations

import atexit
import gc
import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from engine.base.errors import UsageError, guarded, unknown_name
from engine.recipe.env_file import load_env_file
from engine.runs.rundir import runs_root
from grubrics_tui.commands.shared.command import Command, Task, commands, find_command
from grubrics_tui.commands.shared.options import RunsOption
from grubrics_tui.commands.shared.output import on_terminal, say
from grubrics_tui.commands.shared.trust import require_config_trust

_FIRST_RECIPE = "grpo_tiny"

_PLAIN: dict[str, Any] = {
    "add_completion": False,
    # Text in [brackets] is shown as written: markup would take it for a style and drop it.
    "rich_markup_mode": None,
    "pretty_exceptions_enable": False,
}


class CommandGroup(TyperGroup):
    """The program: finds its commands by name, and lists them by task."""

    def list_commands(self, ctx: Any) -> list[str]:
        return sorted(commands())

    def get_command(self, ctx: Any, cmd_name: str) -> TyperCommand | None:
        command = find_command(cmd_name)
        return None if command is None else _with_options(cmd_name, command)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        command = self.get_command(ctx, args[0])
        if command is None:
            every = commands()
            aliases = [alias for known in every.values() for alias in known.aliases]
            raise unknown_name("command", args[0], [*every, *aliases])
        return args[0], command, args[1:]

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        every = commands()
        width = formatter.width - 6 - max(map(len, every))
        for task in Task:
            named = sorted(name for name, command in every.items() if command.task is task)
            summaries = (
                _with_options(name, every[name]).get_short_help_str(width) for name in named
            )
            with formatter.section(task):
                # As wide as the longest name everywhere, so that all summaries begin in one column.
                names = (name.ljust(max(map(len, every))) for name in named)
                formatter.write_dl(list(zip(names, summaries, strict=True)))


def _with_options(name: str, command: Command) -> TyperCommand:
    """The command with the options and arguments that its function's signature declares."""
    single = typer.Typer(**_PLAIN)
    single.command(name)(command.function)
    made = typer.main.get_command(single)
    assert isinstance(made, TyperCommand)
    return made


app = typer.Typer(
    name="grubrics-tui",
    cls=CommandGroup,
    help="A terminal cockpit for LLM post-training.",
    no_args_is_help=False,
    **_PLAIN,
)


def _show_version(is_asked: bool) -> None:
    if is_asked:
        # Not needed, and not cheap, in any other command.
        from importlib.metadata import PackageNotFoundError, version

        try:
            number = version("grubrics-tui")
        except PackageNotFoundError:
            number = "from a folder, not installed"
        typer.echo(f"grubrics-tui {number}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def open_tui(
    context: typer.Context,
    config: Annotated[
        str | None,
        typer.Option(help="Recipe that the checklist opens on [default: grpo_tiny, if it is here]"),
    ] = None,
    runs: RunsOption = None,
    read_only: Annotated[
        bool, typer.Option("--read-only", help="A screen that launches, stops and deletes nothing")
    ] = False,
    _version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version"),
    ] = False,
) -> None:
    """Open the screen; without a terminal, run the recipe headless."""
    if context.invoked_subcommand is not None:
        return
    require_config_trust(config or _FIRST_RECIPE, trust=False)
    if on_terminal():
        from grubrics_tui.app.app import GrubricsApp
        from grubrics_tui.settings.settings import load_settings

        loaded = load_settings(read_only=read_only)
        # In a folder with recipes of its own the person chooses one of them.
        first = _FIRST_RECIPE if Path("configs", f"{_FIRST_RECIPE}.yaml").is_file() else ""
        GrubricsApp(runs_root(runs), config or first, loaded=loaded).run()
        return
    if read_only:
        raise UsageError("--read-only is about the screen, and this is no terminal")
    from grubrics_tui.commands.launch import launch

    launch(config or _FIRST_RECIPE, wait=True, runs=runs)


def main() -> None:
    """Entry point of the console script: a person's mistake is one line and exit code 2."""
    sys.exit(guarded(_run))


def _run() -> int:
    for complaint in load_env_file(os.environ):
        say(f"warning: {complaint}", to=sys.stderr)
    atexit.register(gc.freeze)  # What is left then goes with the process: nothing to collect.
    app()
    return 0
