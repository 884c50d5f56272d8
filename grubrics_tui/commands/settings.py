"""``grubrics-tui settings``: print the settings with value, origin and description."""

from __future__ import annotations

import json
import textwrap
from typing import Any

import typer

from engine.base.typed import to_json
from grubrics_tui.commands.shared import Command, Task, answer, options


def settings(as_json: options.JsonOption = False) -> None:
    """Show all settings with value, origin and description.

    Exits with 1 if the settings file has an error.
    """
    from grubrics_tui.settings.actions import ACTIONS, remapped
    from grubrics_tui.settings.layout import layout_path
    from grubrics_tui.settings.settings import docs, load_settings, settings_path
    from grubrics_tui.settings.themes import ROLES

    loaded = load_settings()
    descriptions = docs()
    values = {}
    for name, origin in loaded.origins.items():
        setting = to_json(getattr(loaded.settings, name))
        values[name] = {"value": setting, "origin": origin, "doc": descriptions[name]}
    value = {
        "path": str(settings_path()),
        "exists": settings_path().exists(),
        "layout": str(layout_path()),
        "settings": values,
        "actions": {
            action.name.removeprefix("app."): remapped(action, loaded.settings.keys or {}).key
            for action in ACTIONS
        },
        "colors": list(ROLES),
        "faults": list(loaded.faults),
    }
    answer(value, _format(value), as_json)
    raise typer.Exit(1 if loaded.faults else 0)


def _format(value: dict[str, Any]) -> str:
    lines = [f"warning: {fault}" for fault in value["faults"]]
    missing = "" if value["exists"] else "  (does not exist; all settings have their default)"
    lines += [f"{value['path']}{missing}", ""]
    for name, setting in value["settings"].items():
        shown = setting["value"]
        text = shown if isinstance(shown, str) else json.dumps(shown)
        lines += [f"{name}: {text}  ({setting['origin']})", f"    {setting['doc']}"]
    lines += ["", "Actions for `keys`, with their current keys:"]
    lines += [f"    {name:<20} {keys}" for name, keys in value["actions"].items()]
    colors = textwrap.wrap(", ".join(value["colors"]), 96, break_on_hyphens=False)
    lines += ["", "Colors for `themes`:", *(f"    {line}" for line in colors)]
    lines += ["", f"Panel layout: {value['layout']}"]
    return "\n".join(lines)


COMMAND = Command(settings, Task.KEEP)
