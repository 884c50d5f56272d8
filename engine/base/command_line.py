"""Command lines of Typer with plain help, and errors of one line that names the argument.

Typer's own errors take several lines, print what was typed unescaped, and accept ``--runs --json``
as a directory named ``--json``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from engine.base.errors import UsageError, nearest, shorten, unknown_name

_LONGEST_PROBLEM = 200

PLAIN: Mapping[str, Any] = {
    "add_completion": False,
    # With markup, text in [brackets] would be taken for a style and dropped.
    "rich_markup_mode": None,
    "pretty_exceptions_enable": False,
}
"""How every program calls ``typer.Typer``."""


UnknownOption = Callable[[Any, str, Collection[str]], UsageError]
"""Returns the error for an option that a command lacks, from its context and its options."""


def unknown_option(context: Any, name: str, options: Collection[str]) -> UsageError:
    """The error with the option that begins with ``name``, or the one spelled most like it."""
    command = command_prefix(context)
    if (begun := find_begun(name, options)) is not None:
        problem = f"{command}option '{shorten(name)}' does not exist"
        return UsageError(f"{problem}; did you mean '{begun}'?")
    return unknown_name(f"{command}option", name, options)


def command_prefix(context: Any) -> str:
    """The command that an error is about; empty for the program itself."""
    return "" if context.parent is None else f"{context.info_name}: "


def find_begun(name: str, options: Collection[str]) -> str | None:
    """The only option that begins with ``name``."""
    begun = [option for option in options if option.startswith(f"--{name.lstrip('-')}")]
    return begun[0] if len(begun) == 1 else None


class PlainHelp(TyperCommand):
    """A command whose help has defaults in parentheses and arguments without braces."""

    allow_extra_args = True
    """``parse_checked`` refuses them, in one line."""

    unknown: UnknownOption = staticmethod(unknown_option)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return parse_checked(super().parse_args, ctx, args, self.unknown)

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        return [piece.strip("{}") for piece in super().collect_usage_pieces(ctx)]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        for title, kind in (("Arguments", "argument"), ("Options", "option")):
            params = [param for param in self.get_params(ctx) if param.param_type_name == kind]
            rows = []
            for param in params:
                if (row := param.get_help_record(ctx)) is not None:
                    # ``--no-x`` of a flag that is off by default is accepted, but tells nothing.
                    name = row[0].partition(" / --no-")[0] if param.default is False else row[0]
                    rows.append((name, _parenthesized(row[1])))
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)


def _parenthesized(text: str) -> str:
    """Replace what Typer appends to a text: ``[default: x]``, ``[required]``.

    Usage shows what is required, and a flag that is off by default needs no default.
    """
    text = re.sub(r"  \[(required|default: no-[^\]]*)\]$", "", text)
    return re.sub(r"  \[(default: [^\]]*)\]$", r" (\1)", text)


def parse_checked(
    parse: Callable[[Any, list[str]], list[str]],
    context: Any,
    args: list[str],
    unknown: UnknownOption = unknown_option,
) -> list[str]:
    """Parse the arguments of a command; return those left over. UsageError if one is wrong.

    A line that is still being typed, for the completion of a shell, is not checked.
    """
    if context.resilient_parsing:
        return parse(context, args)
    options = {
        name: param
        for param in context.command.get_params(context)
        if param.param_type_name == "option"
        for name in (*param.opts, *param.secondary_opts)
    }
    command = command_prefix(context)
    _check_options(options, context, args, unknown)
    try:
        extra = parse(context, args)
    except typer.BadParameter as error:
        name = _shown_name(error.param)
        if not error.message:
            raise UsageError(f"{command}{name} is missing. {context.get_usage()}") from None
        problem = shorten(error.message.rstrip("."), _LONGEST_PROBLEM)
        raise UsageError(f"{command}{name}: {problem}") from None
    # A group leaves the name of the command and its arguments.
    if extra and not isinstance(context.command, TyperGroup):
        word = shorten(extra[0])
        close = nearest(f"--{word}", options)
        hint = f"; did you mean '{close}'?" if close else f". {context.get_usage()}"
        raise UsageError(f"{command}unexpected argument '{word}'{hint}")
    return extra


def _check_options(
    options: dict[str, Any], context: Any, args: Sequence[str], unknown: UnknownOption
) -> None:
    """Check that every option exists and has a value exactly if it takes one.

    The value of an option begins with ``--`` only if it is written after an equals sign. If
    arguments and options do not mix, the words after the first argument belong to a command.
    """
    command, words = command_prefix(context), iter(args)
    for word in words:
        if word == "--":
            return
        if not word.startswith("-") or word == "-":
            if context.allow_interspersed_args:
                continue
            return
        name, equals, _ = word.partition("=")
        if (option := options.get(name)) is None:
            opposites = {f"--no-{option.removeprefix('--')}" for option in options}
            raise unknown(context, name, [name for name in options if name not in opposites])
        takes_value = not (option.is_flag or option.count)
        if equals and not takes_value:
            raise UsageError(f"{command}option {name} takes no value")
        if takes_value and not equals:
            values = [next(words, None) for _ in range(option.nargs)]
            if any(value is None or value.startswith("--") for value in values):
                raise UsageError(f"{command}{_missing_value(name, option, values[-1], options)}")


def _missing_value(name: str, option: Any, next_word: str | None, options: Collection[str]) -> str:
    problem = f"{name} needs a value: {name} {option.metavar or option.type.name.upper()}"
    if next_word is None:
        return problem
    if next_word in options:
        return f"{problem}, not the option {next_word}"
    return f"{problem}. A value that begins with -- needs an equals sign: {name}=--..."


def _shown_name(param: Any) -> str:
    """Return the name of a parameter as help shows it: ``--runs`` or ``RUN``."""
    if param.param_type_name == "option":
        return str(param.opts[0])
    return f"argument {param.metavar or param.name.upper()}"
