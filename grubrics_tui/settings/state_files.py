"""What the TUI remembers: columns and filters of the list of runs, visits, dismissed hints."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from engine.base import jsonl
from engine.base.errors import UsageError
from grubrics_tui.settings.layout import layout_path, locked

_MOST_FILTERS, _LONGEST_NAME = 50, 30
_MOST_FOLDERS = 200
"""Folders that are remembered; the ones visited last stay."""

HINTS: Mapping[str, tuple[tuple[str, str], ...]] = {
    "live": (("find_metric", "find a metric"), ("open_log", "log view"), ("zoom", "zoom a panel")),
    "log": (("search", "search"), ("error(-1)", "previous error"), ("go_to_time", "go to a time")),
    "rollouts": (("group(1)", "next group"), ("step(1)", "next step"),
                 ("show_diff", "diff")),
    "compare": (("find_metric", "other metric"), ("equal_steps", "equal steps"),
                ("other_panel", "table")),
    "runs": (("filter", "filter"), ("mark", "select"), ("compare", "compare selected")),
}  # fmt: skip
"""By screen, shown the first time it is opened: actions, and a short label for each."""


class StateFile:
    """A JSON file beside that of the layouts. A missing, damaged or invalid one counts as empty.

    Several TUIs may use it: each change is made to what it holds then, under a lock.
    """

    NAME = ""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path or self.default_path()

    @classmethod
    def default_path(cls) -> Path:
        return layout_path().with_name(cls.NAME)

    def _read(self) -> dict[str, Any]:
        return jsonl.read_json(self._path) or {}

    def _change(self, change: Callable[[], dict[str, Any]]) -> None:
        """Write what ``change`` makes of the content. Fields of a later version stay.

        OSError if the file cannot be written.
        """
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with locked(self._path):
            jsonl.write_json(self._path, {"v": 1, **self._read(), **change()})


@dataclass(frozen=True)
class ListView:
    """``columns`` are names between the run and its tags; None: the default ones."""

    columns: tuple[str, ...] | None = None
    filters: Mapping[str, str] = field(default_factory=dict)
    """Filter expressions by name."""


class ListViewFile(StateFile):
    """The columns of the list of runs and the named filters."""

    NAME = "list.json"

    def load(self) -> ListView:
        content = self._read()
        names, filters = content.get("columns"), content.get("filters")
        pairs = filters.items() if isinstance(filters, dict) else ()
        return ListView(
            _texts(names) if isinstance(names, list) else None,
            {name: text for name, text in pairs if name in _texts([name]) and _texts([text])},
        )

    def save_columns(self, columns: Iterable[str] | None) -> ListView:
        """Save the chosen columns; None for the default ones. OSError if that is impossible."""
        chosen = None if columns is None else tuple(columns)
        return self._save(lambda view: replace(view, columns=chosen))

    def save_filter(self, name: str, text: str) -> ListView:
        """Save a filter, in place of one of the same name. OSError if that is impossible."""
        return self._save(lambda view: replace(view, filters={**view.filters, name: text}))

    def remove_filter(self, name: str) -> ListView:
        """Forget a filter. OSError if the file cannot be written."""
        return self._save(
            lambda view: replace(
                view, filters={key: text for key, text in view.filters.items() if key != name}
            )
        )

    def _save(self, change: Callable[[ListView], ListView]) -> ListView:
        view = ListView()

        def content() -> dict[str, Any]:
            nonlocal view
            view = change(self.load())
            columns = None if view.columns is None else [*view.columns]
            return {"columns": columns, "filters": {**view.filters}}

        self._change(content)
        return view


def check_filter_name(name: str, known: Mapping[str, str]) -> str:
    """Return the name of a filter to save. UsageError for one that no command line could tell."""
    if not name or not all(char.isalnum() or char in "-_" for char in name):
        raise UsageError("A name has letters, digits, - and _ only, e.g. failed-today")
    if len(name) > _LONGEST_NAME:
        raise UsageError(f"A name has at most {_LONGEST_NAME} characters")
    if name not in known and len(known) >= _MOST_FILTERS:
        raise UsageError(f"{_MOST_FILTERS} filters are saved (maximum): delete one first")
    return name


def _texts(values: Iterable[Any]) -> tuple[str, ...]:
    """The texts of one line among the values."""
    return tuple(value for value in values if jsonl.line(value) == value)


class VisitFile(StateFile):
    """The time of the last visit by runs folder."""

    NAME = "visits.json"

    def read(self, root: Path) -> float | None:
        """Unix seconds of the last visit; None if there was none, or if it is in the future because
        the clock was set back."""
        moment = self._visits().get(_key(root))
        return moment if moment is not None and moment <= time.time() else None

    def record(self, root: Path) -> None:
        """Note a visit now. OSError if the file cannot be written."""

        def content() -> dict[str, Any]:
            visits = {**self._visits(), _key(root): time.time()}
            latest = sorted(visits, key=lambda folder: visits[folder])[-_MOST_FOLDERS:]
            return {"visits": {folder: visits[folder] for folder in latest}}

        self._change(content)

    def _visits(self) -> dict[str, float]:
        raw = self._read().get("visits")
        entries = raw.items() if isinstance(raw, dict) else ()
        return {folder: at for folder, value in entries if (at := jsonl.moment(value)) is not None}


def _key(root: Path) -> str:
    """The same for every path to a folder; a path may be invalid as text."""
    return ascii(str(root.resolve()))


class HintFile(StateFile):
    """The screens whose hint was dismissed."""

    NAME = "hints.json"

    def was_dismissed(self, screen: str) -> bool:
        return screen in self._dismissed()

    def dismiss(self, *screens: str) -> None:
        """Do not show these hints again. OSError if the file cannot be written."""
        self._change(lambda: {"seen": sorted({*self._dismissed(), *screens})})

    def _dismissed(self) -> list[str]:
        names = self._read().get("seen")
        return [name for name in names if isinstance(name, str)] if isinstance(names, list) else []


def hint(screen: str, keys: Mapping[str, str] | None = None) -> list[tuple[str, str]]:
    """``(key, label)`` pairs of a screen, with the user's own keys; empty if it has no hint."""
    from grubrics_tui.settings.actions import first_keys  # Commands read these files too.

    names = first_keys(screen, keys or {})
    hints = [(names[action], label) for action, label in HINTS.get(screen, ())]
    return [*hints, (names["app.show_help"], "all keys")] if hints else []
