"""Errors of a command line: one line that names the argument and the nearest right one.

Click's own errors take several lines, print what was typed unescaped, and accept ``--runs --json``
as a directory named ``--json``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

import typer

from engine.base.errors import UsageError, nearest, shorten, unknown_name
from grubrics_tui.commands.shared.command import commands

_LONGEST_PROBLEM = 200


def parse_checked(
    parse: Callable[[Any, list[str]], list[str]], context: Any, args: list[str]
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
    takes_keys = any(param.name == "overrides" for param in context.command.params)
    command = "" if context.parent is None else f"{context.info_name}: "
    _check_options(options, takes_keys, args, command, interspersed=context.allow_interspersed_args)
    try:
        extra = parse(context, args)
    except typer.BadParameter as error:
        name = _shown_name(error.param)
        if not error.message:
            raise UsageError(f"{command}{name} is missing. {context.get_usage()}") from None
        problem = shorten(error.message.rstrip("."), _LONGEST_PROBLEM)
        raise UsageError(f"{command}{name}: {problem}") from None
    # A group leaves the name of the command and its arguments.
    if extra and context.parent is not None:
        word = shorten(extra[0])
        close = nearest(f"--{word}", options)
        hint = f"; did you mean '{close}'?" if close else f". {context.get_usage()}"
        raise UsageError(f"{command}unexpected argument '{word}'{hint}")
    return extra


def _check_options(
    options: dict[str, Any],
    takes_keys: bool,
    args: Sequence[str],
    command: str,
    *,
    interspersed: bool,
) -> None:
    """Check that every option exists and has a value exactly if it takes one.

    The value of an option begins with ``--`` only if it is written after an equals sign. Without
    ``interspersed``, the words after the first argument belong to a command.
    """
    words = iter(args)
    for word in words:
        if word == "--":
            return
        if not word.startswith("-") or word == "-":
            if interspersed:
                continue
            return
        name, equals, _ = word.partition("=")
        if (option := options.get(name)) is None:
            raise _unknown_option(name, options, takes_keys, command)
        takes_value = not (option.is_flag or option.count)
        if equals and not takes_value:
            raise UsageError(f"{command}option {name} takes no value")
        if takes_value and not equals:
            values = [next(words, None) for _ in range(option.nargs)]
            if any(value is None or value.startswith("--") for value in values):
                raise UsageError(f"{command}{_missing_value(name, option, values[-1], options)}")


def _unknown_option(
    name: str, options: Collection[str], takes_keys: bool, command: str
) -> UsageError:
    """Return the error with the option that begins with ``name``, the key of a config that another
    trainer has as this option, or the option that is spelled most like it."""
    opposites = {f"--no-{option.removeprefix('--')}" for option in options}
    shown = [option for option in options if option not in opposites]
    begun = [option for option in shown if option.startswith(f"--{name.lstrip('-')}")]
    plain = name.lstrip("-").replace("-", "_")
    table = Path(__file__).with_name("other_options.yaml")
    from engine.base.yaml_files import read_table  # Only a wrong option needs YAML.

    others = read_table(table) if takes_keys else {"instead": {}}
    if (instead := others["instead"].get(plain)) is not None:
        return UsageError(f"{command}option '{name}' does not exist; {instead}")
    if len(begun) == 1:
        return UsageError(
            f"{command}option '{shorten(name)}' does not exist; did you mean '{begun[0]}'?"
        )
    if takes_keys and (key := others["keys"].get(plain) or _keys_called(plain)):
        advice = f"give the key of the config as KEY=VALUE: {key}"
        return UsageError(f"{command}option '{name}' does not exist; {advice}")
    if not command and (meant := next((word for word in commands() if word in name), None)):
        return UsageError(f"option '{shorten(name)}' does not exist; did you mean '{meant} ...'?")
    return unknown_name(f"{command}option", name, shown)


def _keys_called(name: str) -> str:
    """The keys for what other trainers call ``name``, of GRPO and SFT; empty if there is none."""
    from engine.run.trainer_settings import settings_called  # Only a wrong option needs it.

    keys = next((setting.keys for setting in settings_called(name)), {})
    grpo, sft = keys.get("grpo"), keys.get("sft")
    return f"{grpo} (SFT: {sft})" if grpo and sft else grpo or sft or ""


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
