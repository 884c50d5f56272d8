"""``grubrics-tui keys``: the credentials of the project, and storing one in .env."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from getpass import getpass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from engine.base.errors import UsageError, nearest, unknown_name
from engine.base.masking import is_secret_name, mask
from engine.base.tables import aligned_lines
from engine.config.env_file import load_env_file, set_variable, unset_variable
from grubrics_tui.commands.shared import Command, Task, argument, flag, options
from grubrics_tui.commands.shared.output import answer, confirmed, on_terminal, say, warn

if TYPE_CHECKING:
    from engine.config.credentials import Variable

_FILE = Path(".env")
_NAME = re.compile(r"[A-Za-z_]\w*")
_LONGEST = 8192


def keys(
    action: Annotated[str, argument("[list|set|unset]", "What to do")] = "list",
    name: Annotated[
        str | None, argument("[NAME]", "Variable to set or unset, e.g. HF_TOKEN")
    ] = None,
    words: Annotated[list[str] | None, typer.Argument(hidden=True)] = None,
    yes: Annotated[bool, flag("Store without asking; reads the value from stdin", "--yes")] = False,
    as_json: options.JsonOption = False,
) -> None:
    """List the project's credentials, or store one in .env.

    The list shows where each is set, and values in masked form. set asks for the value without
    showing it, says where it is stored, and asks again; .env is then readable by its owner only.
    From a pipe: cat FILE | grubrics-tui keys set NAME --yes
    """
    if action not in ("list", "set", "unset"):
        raise unknown_name("action", action, ["list", "set", "unset"])
    if action == "list":
        if name is not None:
            raise UsageError("keys list takes no NAME: it lists all variables")
        _list(as_json)
    elif name is None:
        raise UsageError(f"name a variable: grubrics-tui keys {action} HF_TOKEN")
    elif words or not _NAME.fullmatch(name):
        # Whatever else was typed may be the key: it is not repeated.
        raise UsageError(f"give only the variable's name; grubrics-tui keys {action} asks for more")
    elif action == "set":
        _set(name, yes, as_json)
    else:
        _unset(name, as_json)


def _list(as_json: bool) -> None:
    from engine.config.credentials import find_variables

    in_file: dict[str, str] = {}
    load_env_file(in_file, _FILE)  # The program warned of its faults when it read the file.
    found = [*find_variables(os.environ, in_file)]
    value = {"file": str(_FILE.absolute()), "variables": found}
    answer(value, _format(found), as_json)


def _format(variables: Sequence[Variable]) -> str:
    rows = []
    for variable in variables:
        value, note = variable.value or "", f" ({variable.note})" if variable.note else ""
        place = variable.origin or "not set"
        rows.append((variable.name, place, f"{value:<12}", f"{variable.purpose}{note}"))
    lines = aligned_lines(rows)
    return "\n".join([*lines, "", "store one in .env: grubrics-tui keys set NAME"])


def _unset(name: str, as_json: bool) -> None:
    """Remove a variable from .env; UsageError for one that it does not set."""
    in_file: dict[str, str] = {}
    load_env_file(in_file, _FILE)
    if not unset_variable(name, _FILE):
        close = nearest(name, in_file)
        hint = f"; did you mean {close}?" if close else ""
        shell = f". The shell sets it: unset {name}" if name in os.environ else ""
        raise UsageError(f"{name} is not set in {_FILE}{hint or shell}; nothing was removed")
    value = {"name": name, "file": str(_FILE.absolute()), "removed": True}
    answer(value, f"removed {name} from {_FILE}", as_json)


def _set(name: str, yes: bool, as_json: bool) -> None:
    from engine.config.credentials import known_variables

    known = known_variables()
    if name not in known and not is_secret_name(name):
        close = nearest(name, known)
        hint = f"; did you mean {close}?" if close else f"; known: {', '.join(known)}"
        raise UsageError(f"{name} is not a credential that grubrics-tui knows{hint}")
    place = _FILE.resolve()
    if not yes and not on_terminal():
        raise UsageError(
            "without a terminal, keys set takes the value from stdin with --yes: "
            f"cat FILE | grubrics-tui keys set {name} --yes"
        )
    if not as_json:
        say(f"{name} will be stored as plain text in {place}, which only you can read")
    value = (getpass(f"{name} (not shown): ") if not yes else sys.stdin.read(_LONGEST)).strip()
    _require_value(name, value)
    if not yes and not confirmed(f"Store {name}={mask(value)} in {place}?"):
        say("Nothing was stored.")
        raise typer.Exit(1)
    # From here on, whatever is printed masks it.
    shell, os.environ[name] = os.environ.get(name), value
    in_file: dict[str, str] = {}
    load_env_file(in_file, _FILE)
    is_hidden = shell is not None and shell not in (value, in_file.get(name))
    set_variable(name, value, _FILE)
    warn(_warnings(name, is_hidden))
    stored = {"name": name, "value": mask(value), "file": str(place), "stored": True}
    answer(stored, f"stored {name}={mask(value)} in {_FILE}", as_json)


def _require_value(name: str, value: str) -> None:
    """UsageError, without the value, for one that no server takes."""
    if not value:
        raise UsageError(f"{name}: no value was given; nothing was stored")
    if not value.isascii() or not value.isprintable() or " " in value:
        problem = "has a space, a control character or a non-ASCII character"
        raise UsageError(f"{name}: the value {problem}; nothing was stored")


def _warnings(name: str, is_hidden: bool) -> list[str]:
    from engine.run.host.environment import is_ignored_by_git

    warnings = []
    if is_hidden:
        warnings.append(f"the shell has another {name}, which takes precedence: unset {name}")
    if is_ignored_by_git(_FILE) is False:
        warnings.append(f"git does not ignore {_FILE}: add it to .gitignore before you commit")
    return warnings


COMMAND = Command(keys, Task.PREPARE)
