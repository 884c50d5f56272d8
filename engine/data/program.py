"""The programs of this folder: ``python -m engine.data.prepare`` and others.

A command is a function of one record. A field of the record with a help text is an option:
``Annotated[int, "Rows of a file"]``. Further texts are its names, if it has others.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Sequence
from inspect import Signature, signature
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import typer
from typer.core import TyperGroup

from engine.base.command_line import PLAIN, PlainHelp, parse_checked
from engine.base.errors import UsageError, unknown_name

Command = Callable[[Any], int | None]

Dataset = Annotated[str, "Data set, e.g. healthbench or medqa; precompute --help lists all"]
Answers = Annotated[
    Path | None, "File with answers, e.g. HealthBench's completions", "--meta_eval_path"
]
OutputDir = Annotated[Path, "Folder of the files"]
Seed = Annotated[int, "Seed of the random choices"]
Blocklist = Annotated[
    Path | None,
    "Leave out questions that contain a text of the file, one a line, in any case, also in their "
    "rubric or answers",
]


def at_least(least: int) -> Callable[[typer.CallbackParam, int | None], int | None]:
    """A check of an option that refuses smaller numbers."""

    def check(param: typer.CallbackParam, value: int | None) -> int | None:
        if value is not None and value < least:
            raise UsageError(f"{param.opts[0]} {value} must be at least {least}")
        return value

    return check


def run_program(
    name: str, words: Sequence[str] | None, *commands: Command, epilog: str = ""
) -> int:
    """Run the command that the first word names, or the only one, and return its exit code."""
    about = sys.modules[commands[0].__module__].__doc__
    context = {"help_option_names": ["-h", "--help"]}
    shared: Any = {"context_settings": context, "epilog": epilog}
    app = typer.Typer(cls=_Group, help=about, **shared, **PLAIN)
    for command in commands:
        help = command.__doc__ if commands[1:] else about
        declare = app.command(command.__name__, cls=_RecordCommand, help=help, **shared)
        declare(_with_options(command))
    program = typer.main.get_command(app)
    try:
        with program.make_context(name, list(sys.argv[1:] if words is None else words)) as parsed:
            return program.invoke(parsed) or 0
    except typer.Exit as ended:
        return ended.exit_code


def _with_options(command: Command) -> Callable[..., int | None]:
    """The command as a function with a parameter for each option of its record."""
    [record] = (kind for name, kind in get_type_hints(command).items() if name != "return")
    kinds = get_type_hints(record, include_extras=True)
    parameters = [
        parameter.replace(annotation=_annotation(name, *get_args(kinds[name])))
        for name, parameter in signature(record).parameters.items()
        if get_origin(kinds[name]) is Annotated
    ]

    def run(**values: Any) -> int | None:
        return command(record(**values))

    vars(run)["__signature__"] = Signature(parameters)
    return run


def _annotation(field: str, kind: Any, help: str, *more: Any) -> Any:
    names = [name for name in more if isinstance(name, str)]
    check = next((callback for callback in more if callable(callback)), None)
    if names and not names[0].startswith("-"):
        return Annotated[kind, typer.Argument(metavar=names[0], help=help)]
    usual = f"--{field.replace('_', '-') if kind is bool else field}"
    return Annotated[kind, typer.Option(*(names or [usual]), help=help, callback=check)]


class _Group(TyperGroup):
    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not args:
            raise UsageError(f"name a command: {', '.join(self.commands)}")
        return parse_checked(super().parse_args, ctx, args)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args[0] not in self.commands:
            raise unknown_name("command", args[0], self.commands)
        return super().resolve_command(ctx, args)


class _RecordCommand(PlainHelp):
    """An option that can be repeated takes several values too: ``--open a b``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        repeatable = {name for param in self.params if param.multiple for name in param.opts}
        return super().parse_args(ctx, _repeat(repeatable, args))


def _repeat(repeatable: Collection[str], words: Iterable[str]) -> list[str]:
    """Write the name of an option before each of its values: ``--open=a --open=b``."""
    repeated, name = list[str](), ""
    for word in words:
        if word.startswith("--"):
            name = word if word in repeatable else ""
        elif name:
            word = f"{name}={word}"
            if repeated[-1] == name:
                repeated.pop()
        repeated.append(word)
    return repeated
