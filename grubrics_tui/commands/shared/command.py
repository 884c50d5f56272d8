"""The declaration of a command, and finding commands by name.

A command is a module of ``grubrics_tui.commands`` named like it (``judge_test`` for ``judge-test``)
with a ``COMMAND``. A package adds one with an entry point of the group ``grubrics.commands`` that
names a ``Command``. A built-in command is imported only when its name is typed or when help
lists all of them, and entry points are read only when no built-in command has the name.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

_PACKAGE = "grubrics_tui.commands"


class Task(StrEnum):
    """What a command is for: the headings of ``grubrics-tui --help``, in their order."""

    PREPARE = "Before a run"
    RUN = "Run"
    INSPECT = "Inspect"
    DIAGNOSE = "Diagnose"
    MEASURE = "Measure"
    KEEP = "Keep"


@dataclass(frozen=True)
class Command:
    """``function`` takes the options; the first sentence of its docstring is the summary."""

    function: Callable[..., None]
    task: Task
    ends_with_words: bool = False
    """Whether what follows the first argument belongs to it, also what looks like an option."""


def find_command(name: str) -> Command | None:
    """Return the command with this name, None if there is none."""
    command = _builtin(name) if "_" not in name else None
    return command or commands().get(name)


def commands() -> dict[str, Command]:
    """Return every command by name: the built-in ones and those of installed packages."""
    import pkgutil

    package = importlib.import_module(_PACKAGE)
    names = [m.name.replace("_", "-") for m in pkgutil.iter_modules(package.__path__)]
    builtin = {name: command for name in names if (command := _builtin(name)) is not None}
    return {**dict(_plugins(builtin)), **builtin}


def _builtin(name: str) -> Command | None:
    module = f"{_PACKAGE}.{name.replace('-', '_')}"
    if not name.replace("-", "").isalnum() or importlib.util.find_spec(module) is None:
        return None
    command = getattr(importlib.import_module(module), "COMMAND", None)
    return command if isinstance(command, Command) else None


def _plugins(builtin: Mapping[str, Command]) -> Iterator[tuple[str, Command]]:
    """Yield the commands of installed packages; name and skip what cannot be one."""
    import sys

    from engine.base.plugins import load
    from grubrics_tui.commands.shared.output import say

    plugins = load("grubrics.commands", Command)
    problems = [*plugins.problems]
    for plugin in plugins.loaded:
        if plugin.name in builtin:
            problems.append(f"command {plugin.name} of {plugin.source} is skipped: it is built in")
        else:
            yield plugin.name, plugin.value
    for problem in problems:
        say(f"warning: {problem}", to=sys.stderr)
