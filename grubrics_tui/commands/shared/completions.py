"""What a shell offers at TAB, beside commands and options: runs, configs and the keys of configs.

A shell starts the program for each TAB, so this reads names only. What cannot be read offers
nothing: an error would end up in the line that is being typed.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import typer

from engine.base.errors import UsageError
from engine.run.run import exists, folder_names, runs_root

PROGRAM = "grubrics-tui"
SHELLS = ("bash", "zsh", "fish")
ASKED = "_GRUBRICS_TUI_COMPLETE"
"""The variable by which a shell asks the program what fits the line typed so far."""


def answer_shell(program: Any, question: str) -> int:
    """Print the script of a shell (``source_bash``), or what fits the line (``complete_bash``)."""
    from typer.completion import get_completion_inspect_parameters, shell_complete

    get_completion_inspect_parameters()  # Typer's own shells, in place of those of Click.
    return shell_complete(program, {}, PROGRAM, ASKED, question)


def complete_shell(incomplete: str) -> list[str]:
    """The shells that have a script."""
    return [name for name in SHELLS if name.startswith(incomplete)]


def complete_run(ctx: typer.Context, incomplete: str) -> list[str]:
    """The IDs of runs."""
    root = runs_root(ctx.params.get("runs"))
    names = [name for name in folder_names(root) if name.startswith(incomplete)]
    return [name for name in names if exists(f"{root}/{name}/manifest.json")]


def complete_config(incomplete: str) -> list[str]:
    """The names of configs in ``configs/``, and the packaged ones; shells offer paths."""
    from engine.config.config_files import config_names

    try:
        return [name for name in config_names() if name.startswith(incomplete)]
    except OSError:
        return []


def complete_source(ctx: typer.Context, incomplete: str) -> list[str]:
    """Configs and runs."""
    return [*complete_config(incomplete), *complete_run(ctx, incomplete)]


def complete_override(ctx: typer.Context, incomplete: str) -> list[str]:
    """The keys of the config that was typed before, as ``key=``: by their beginning, else by the
    beginning of their end, such as ``lr``. Those that the config sets, if nothing was typed."""
    from engine.config.load import config_keys

    if "=" in incomplete:
        return []  # A value, which may be a path: shells complete those.
    try:
        chosen, defaults = config_keys(_config_file(ctx))
    except UsageError:
        return []
    return [_Key(f"{key}=") for key in _find_keys(incomplete, chosen, defaults)]


class _Key(str):
    """An offer that need not begin like the word that was typed: Typer drops all others."""

    def startswith(self, *_: object) -> bool:
        return True


def complete_launched(ctx: typer.Context, incomplete: str) -> list[str]:
    """Configs; after ``--from RUN`` the keys of that run."""
    if ctx.params.get("source"):
        return complete_override(ctx, incomplete)
    return complete_config(incomplete)


def _find_keys(part: str, chosen: Mapping[str, Any], defaults: Mapping[str, Any]) -> list[str]:
    from engine.config.keys import find_other_name, with_whole_key

    if not part:
        return sorted(chosen)
    known = [key for key in defaults if not key.endswith("._target_")]
    if keys := [key for key in known if key.startswith(part)]:
        return keys
    with suppress(UsageError):
        key = with_whole_key(f"{part}=", chosen, defaults).removesuffix("=")
        if key != part:
            return [key]
    if (other_name := find_other_name(part, known)) is not None:
        return [other_name]
    keys = [key for key in known if f".{part}" in key and not key.startswith("critic.")]
    sections = {key.partition(f".{part}")[0] for key in keys}
    # A shell replaces the part by what all have in common, which must not be less than was typed.
    return keys if len(sections) == 1 else []


def _config_file(ctx: typer.Context) -> str:
    """The config that was typed, or that of the run; UsageError if there is none."""
    name = ctx.params.get("source") or ctx.params.get("config") or ""
    root = runs_root(ctx.params.get("runs"))
    config = root / name / "recipe.yaml"
    return str(config) if name and config.is_file() else name
