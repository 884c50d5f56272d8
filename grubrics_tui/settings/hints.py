"""The keys that matter on a screen, told the first time a person opens it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from engine.base import jsonl
from grubrics_tui.settings.actions import actions_of, remapped
from grubrics_tui.settings.layout import layout_path

_VERSION = 1

HINTS: Mapping[str, tuple[tuple[str, str], ...]] = {
    "live": (("find_metric", "any metric"), ("open_log", "whole log"), ("zoom", "one panel")),
    "log": (("search", "searches"), ("error(-1)", "error above"), ("go_to_time", "goes to a time")),
    "rollouts": (("group(1)", "next group"), ("step(1)", "next step"),
                 ("show_diff", "what differs")),
    "compare": (("find_metric", "other metric"), ("equal_steps", "equal steps"),
                ("other_panel", "the table")),
    "runs": (("filter", "filters"), ("mark", "marks"), ("compare", "compares marked")),
}  # fmt: skip
"""By screen: an action of the registry and what its key does, in a word or two."""


def hint(screen: str, keys: Mapping[str, str] | None = None) -> list[tuple[str, str]]:
    """``(key, what it does)`` of a screen, with the keys a person has chosen; empty for others."""
    known = {action.name: remapped(action, keys or {}) for action in actions_of(screen)}
    found = [(known[name].keys.split()[0], told) for name, told in HINTS.get(screen, ())]
    return [*found, (known["app.show_help"].keys.split()[0], "every key")] if found else []


def hints_path() -> Path:
    return layout_path().with_name("hints.json")


class HintFile:
    """The screens whose hint was taken away. One that is missing or torn means none was."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path or hints_path()

    def was_seen(self, screen: str) -> bool:
        return screen in self._seen()

    def keep(self, *screens: str) -> None:
        """Never to be shown again; OSError when there is no room or no right to."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        seen = sorted({*self._seen(), *screens})
        jsonl.write_json(self._path, {"v": _VERSION, "seen": seen})

    def _seen(self) -> list[str]:
        seen = (jsonl.read_json(self._path) or {}).get("seen")
        return [name for name in seen if isinstance(name, str)] if isinstance(seen, list) else []
