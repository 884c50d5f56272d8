"""The command line: the options of the program itself, and the commands of ``commands``.

Every action of the TUI has a command. A command is imported when it is called, so that the program
starts quickly and without Textual.
"""

from __future__ import annotations

import atexit
import gc
import os
import sys
from contextlib import suppress
from inspect import signature
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from engine.base.command_line import PLAIN, PlainHelp, parse_checked
from engine.base.errors import UsageError, guarded, shorten, unknown_name
from engine.config.config_files import find_config
from engine.config.env_file import load_env_file
from engine.run.run import runs_root
from grubrics_tui.commands.shared.command import Command, Task, commands, find_command
from grubrics_tui.commands.shared.completions import ASKED, PROGRAM, answer_shell
from grubrics_tui.commands.shared.options import RunsOption
from grubrics_tui.commands.shared.output import on_terminal, say
from grubrics_tui.commands.shared.trust import require_folder_trust
from grubrics_tui.commands.shared.usage_errors import unknown_option

_DEMO_CONFIG = "grpo_tiny"
_ABOUT = """Launch, monitor, diagnose and compare LLM post-training runs (SFT, GRPO).

Without a command: open the TUI; without a terminal, launch the config of --config and print its
progress."""


class _Command(PlainHelp):
    unknown = staticmethod(unknown_option)


class CommandGroup(TyperGroup):
    """The program: finds its commands by name, and lists them by task."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return parse_checked(super().parse_args, ctx, args, unknown_option)

    def list_commands(self, ctx: Any) -> list[str]:
        return sorted(commands())

    def get_command(self, ctx: Any, cmd_name: str) -> TyperCommand | None:
        command = find_command(cmd_name)
        return None if command is None else build_command(cmd_name, command)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        command = self.get_command(ctx, args[0])
        if command is None:
            if "=" in args[0]:
                config = ctx.params.get("config") or "CONFIG"
                advice = f"overrides follow a command: grubrics-tui launch {config} {args[0]}"
                raise UsageError(f"'{shorten(args[0])}' is not a command; {shorten(advice, 160)}")
            raise unknown_name("command", args[0], commands())
        return args[0], command, args[1:]

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        available = commands()
        longest = max(map(len, available))
        for task in Task:
            rows = []
            for name, command in sorted(available.items()):
                if command.task is not task:
                    continue
                width = formatter.width - longest - 6
                summary = build_command(name, command).get_short_help_str(width)
                # Padded, so that the summaries of all tasks begin in one column.
                rows.append((name.ljust(longest), summary))
            with formatter.section(task):
                formatter.write_dl(rows)


def build_command(name: str, command: Command) -> TyperCommand:
    """Build the command from the signature of its function."""
    single = typer.Typer(**PLAIN)
    context = {"allow_interspersed_args": not command.ends_with_words}
    single.command(name, cls=_Command, context_settings=context)(command.function)
    built = typer.main.get_command(single)
    assert isinstance(built, TyperCommand)
    return built


app = typer.Typer(
    name=PROGRAM,
    cls=CommandGroup,
    help=_ABOUT,
    epilog="Exit codes: 0 success, 1 negative result, 2 invalid input, 3 no verdict.",
    no_args_is_help=False,
    **PLAIN,
)


def _show_version(is_asked: bool) -> None:
    if is_asked:
        # Not needed, and not cheap, in any other command.
        from importlib.metadata import PackageNotFoundError, version

        try:
            number = version("grubrics-tui")
        except PackageNotFoundError:
            number = "(not installed)"
        typer.echo(f"grubrics-tui {number}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def open_tui(
    context: typer.Context,
    config: Annotated[
        str | None,
        typer.Option(
            metavar="CONFIG",
            help="Open the preflight checks of this config",
        ),
    ] = None,
    runs: RunsOption = None,
    read_only: Annotated[
        bool,
        typer.Option("--read-only", help="Open read-only: no launch, stop, resume, delete or edit"),
    ] = False,
    _version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Show the version and exit"
        ),
    ] = False,
) -> None:
    """Open the TUI; without a terminal, launch the config of --config and print its progress."""
    if (command := context.invoked_subcommand) is not None:
        if runs is not None:
            _require_runs_option(command)
            context.default_map = {command: {"runs": runs}}
        if config is not None or read_only:
            raise UsageError("--config and --read-only apply only without a command")
        return
    if config is None and not on_terminal():
        raise UsageError(
            "there is no terminal to open the TUI on. To see the runs: grubrics-tui runs. To train "
            "a config: grubrics-tui launch CONFIG --wait, or grubrics-tui --config CONFIG"
        )
    if on_terminal():
        from grubrics_tui.app.app import GrubricsApp
        from grubrics_tui.settings.settings import load_settings

        try:
            file = find_config(config or _DEMO_CONFIG)
        except UsageError:
            pass  # The screen says so.
        else:
            require_folder_trust(file, trust=False)
        loaded = load_settings(read_only=read_only)
        # In a project with other configs, the user chooses one of them.
        first = _DEMO_CONFIG if Path("configs", f"{_DEMO_CONFIG}.yaml").is_file() else ""
        GrubricsApp(
            runs_root(runs), config or first, checks=bool(config), loaded=loaded
        ).run_to_end()
        return
    if read_only:
        raise UsageError("--read-only needs a terminal")
    from grubrics_tui.commands.launch import launch

    launch(config, wait=True, runs=runs)


def _require_runs_option(name: str) -> None:
    """Raise UsageError for a command that reads no runs."""
    command = find_command(name)
    if command is not None and "runs" not in signature(command.function).parameters:
        raise UsageError(f"--runs: grubrics-tui {name} reads no runs; leave it out")


def main() -> None:
    """Entry point of the console script: invalid input is one line on stderr and exit code 2."""
    sys.exit(guarded(_run))


def _complete() -> int:
    """Answer a shell that asks what fits the line typed so far (``completion``).

    Nothing is printed for a line that cannot be parsed: it would end up in that line.
    """
    with suppress(UsageError, typer.Exit):
        return answer_shell(typer.main.get_command(app), os.environ[ASKED])
    return 1


def _run() -> int:
    if ASKED in os.environ:
        return _complete()
    if (encoding := sys.getfilesystemencoding()) != "utf-8":
        _refuse_undecodable(sys.argv[1:], encoding)
    for problem in load_env_file(os.environ):
        say(f"warning: {problem}", to=sys.stderr)
    atexit.register(gc.freeze)  # The process ends: do not collect garbage.
    return _run_command(sys.argv[1:])


def _refuse_undecodable(words: list[str], encoding: str) -> None:
    """Raise UsageError for characters that the locale lacks: Python gives their bytes as
    characters that no text has, and a note would lose them."""
    for word in words:
        if any("\udc80" <= character <= "\udcff" for character in word):
            problem = f"'{shorten(word)}' has characters that the locale ({encoding}) lacks"
            raise UsageError(f"{problem}. Set LC_ALL=C.UTF-8")


def _run_command(words: list[str]) -> int:
    """Run a command line and return its exit code.

    Typer's own ``main`` would turn a closed pipe into exit code 1.
    """
    program = typer.main.get_command(app)
    try:
        with program.make_context(app.info.name, words) as context:
            program.invoke(context)
    except typer.Exit as ended:
        return ended.exit_code
    except KeyboardInterrupt:
        return 130
    except (EOFError, typer.Abort):
        say("\nAborted.", to=sys.stderr)
        return 1
    return 0
