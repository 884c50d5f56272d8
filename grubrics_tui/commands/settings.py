"""``grubrics-tui settings``: print the settings with value, origin and description."""

from __future__ import annotations

import dataclasses
from typing import Any

import typer

from grubrics_tui.commands.shared.command import Command, Task
from grubrics_tui.commands.shared.options import JsonOption
from grubrics_tui.commands.shared.output import answer


def settings(as_json: JsonOption = False) -> None:
    """Show the settings file's path, every value with its origin, and what it means."""
    from grubrics_tui.settings.layout import layout_path
    from grubrics_tui.settings.settings import docs, load_settings, settings_path

    loaded = load_settings()
    explained = docs()
    values = {
        name: {"value": _plain(getattr(loaded.settings, name)), "origin": origin, "doc": doc}
        for (name, origin), doc in zip(loaded.origins.items(), explained.values(), strict=True)
    }
    told = {
        "path": str(settings_path()),
        "exists": settings_path().exists(),
        "layout": str(layout_path()),
        "settings": values,
        "actions": _actions(loaded.settings.keys or {}),
        "faults": list(loaded.faults),
    }
    answer(told, _text(told), as_json)
    raise typer.Exit(1 if loaded.faults else 0)


def _actions(keys: Any) -> dict[str, str]:
    """The names that ``keys`` takes, and the keys each has now."""
    from grubrics_tui.settings.actions import ACTIONS, remapped

    return {action.name.removeprefix("app."): remapped(action, keys).key for action in ACTIONS}


def _text(told: dict[str, Any]) -> str:
    lines = [f"warning: {fault}" for fault in told["faults"]]
    lines += [told["path"] + ("" if told["exists"] else "  (does not exist: all is default)"), ""]
    for name, one in told["settings"].items():
        lines += [f"{name}: {_yaml(one['value'])}  ({one['origin']})", f"    {one['doc']}"]
    lines += ["", "Names for keys, with the keys they have now:"]
    lines += [f"    {name:<20} {keys}" for name, keys in told["actions"].items()]
    lines += ["", f"Panels, as left on the screen: {told['layout']}"]
    return "\n".join(lines)


def _plain(value: Any) -> Any:
    """As JSON holds it."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    return value


def _yaml(value: Any) -> str:
    import json

    return value if isinstance(value, str) else json.dumps(value)


COMMAND = Command(settings, Task.KEEP)
