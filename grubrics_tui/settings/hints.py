"""The most important keys of a screen, shown the first time it is opened."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from engine.base import jsonl
from grubrics_tui.settings.actions import first_keys
from grubrics_tui.settings.layout import layout_path

_VERSION = 1

HINTS: Mapping[str, tuple[tuple[str, str], ...]] = {
    "live": (("find_metric", "find a metric"), ("open_log", "log view"), ("zoom", "zoom a panel")),
    "log": (("search", "search"), ("error(-1)", "previous error"), ("go_to_time", "go to a time")),
    "rollouts": (("group(1)", "next group"), ("step(1)", "next step"),
                 ("show_diff", "diff")),
    "compare": (("find_metric", "other metric"), ("equal_steps", "equal steps"),
                ("other_panel", "table")),
    "runs": (("filter", "filter"), ("mark", "select"), ("compare", "compare selected")),
}  # fmt: skip
"""By screen: actions of the registry, and a short label for each."""


def hint(screen: str, keys: Mapping[str, str] | None = None) -> list[tuple[str, str]]:
    """``(key, label)`` pairs of a screen, with the user's own keys; empty if it has no hint."""
    names = first_keys(screen, keys or {})
    hints = [(names[action], label) for action, label in HINTS.get(screen, ())]
    return [*hints, (names["app.show_help"], "all keys")] if hints else []


def hints_path() -> Path:
    return layout_path().with_name("hints.json")


class HintFile:
    """The screens whose hint was dismissed. A missing or damaged file means none was."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path or hints_path()

    def was_dismissed(self, screen: str) -> bool:
        return screen in self._dismissed()

    def dismiss(self, *screens: str) -> None:
        """Do not show these hints again. OSError if the file cannot be written."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        seen = sorted({*self._dismissed(), *screens})
        jsonl.write_json(self._path, {"v": _VERSION, "seen": seen})

    def _dismissed(self) -> list[str]:
        names = (jsonl.read_json(self._path) or {}).get("seen")
        return [name for name in names if isinstance(name, str)] if isinstance(names, list) else []
