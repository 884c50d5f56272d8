"""``grubrics-tui settings``: print the settings with value, origin and description."""

from __future__ import annotations

import dataclasses
from typing import Any

import typer

from grubrics_tui.commands.shared.command import Command, Task
from grubrics_tui.commands.shared.options import JsonOption
from grubrics_tui.commands.shared.output import answer


def settings(as_json: JsonOption = False) -> None:
    """Show all settings with value, origin and description.

    Exits with 1 if the settings file has an error.
    """
    from grubrics_tui.settings.layout import layout_path
    from grubrics_tui.settings.settings import docs, load_settings, settings_path

    loaded = load_settings()
    explained = docs()
    values = {
        name: {"value": _plain(getattr(loaded.settings, name)), "origin": origin, "doc": doc}
        for (name, origin), doc in zip(loaded.origins.items(), explained.values(), strict=True)
    }
    value = {
        "path": str(settings_path()),
        "exists": settings_path().exists(),
        "layout": str(layout_path()),
        "settings": values,
        "actions": _actions(loaded.settings.keys or {}),
        "faults": list(loaded.faults),
    }
    answer(value, _format(value), as_json)
    raise typer.Exit(1 if loaded.faults else 0)


def _actions(keys: Any) -> dict[str, str]:
    """Return the action names that ``keys`` accepts, with their keys."""
    from grubrics_tui.settings.actions import ACTIONS, remapped

    return {action.name.removeprefix("app."): remapped(action, keys).key for action in ACTIONS}


def _format(value: dict[str, Any]) -> str:
    lines = [f"warning: {fault}" for fault in value["faults"]]
    lines += [
        value["path"]
        + ("" if value["exists"] else "  (does not exist; all settings have their default)"),
        "",
    ]
    for name, setting in value["settings"].items():
        lines += [f"{name}: {_yaml(setting['value'])}  ({setting['origin']})"]
        lines += [f"    {setting['doc']}"]
    lines += ["", "Actions for `keys`, with their present keys:"]
    lines += [f"    {name:<20} {keys}" for name, keys in value["actions"].items()]
    lines += ["", f"Panel layout: {value['layout']}"]
    return "\n".join(lines)


def _plain(value: Any) -> Any:
    """Return a value that JSON can hold."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    return value


def _yaml(value: Any) -> str:
    import json

    return value if isinstance(value, str) else json.dumps(value)


COMMAND = Command(settings, Task.KEEP)
