"""The columns of the list of runs and the named filters: changed in the TUI, saved in a file."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from engine.base import jsonl
from engine.base.errors import UsageError
from grubrics_tui.settings.layout import locked

_VERSION = 1
_MOST = 50
_LONGEST_NAME = 30


@dataclass(frozen=True)
class ListView:
    """``columns`` are names between the run and its tags; None: the default ones."""

    columns: tuple[str, ...] | None = None
    filters: Mapping[str, str] = field(default_factory=dict)
    """Filter expressions by name."""


def list_view_path(env: Mapping[str, str] = os.environ) -> Path:
    base = env.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(base) / "grubrics-tui" / "list.json"


class ListViewFile:
    """A missing, damaged or invalid file counts as empty. Several TUIs may use the file: each
    change is made to what it holds then."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path or list_view_path()

    def load(self) -> ListView:
        content = jsonl.read_json(self._path) or {}
        names, filters = content.get("columns"), content.get("filters")
        pairs = filters.items() if isinstance(filters, dict) else ()
        return ListView(
            _texts(names) if isinstance(names, list) else None,
            {name: text for name, text in pairs if name in _texts([name]) and _texts([text])},
        )

    def save_columns(self, columns: Iterable[str] | None) -> ListView:
        """Save the chosen columns; None for the default ones. OSError if that is impossible."""
        chosen = None if columns is None else tuple(columns)
        return self._change(lambda view: replace(view, columns=chosen))

    def save_filter(self, name: str, text: str) -> ListView:
        """Save a filter, in place of one of the same name. OSError if that is impossible."""
        return self._change(lambda view: replace(view, filters={**view.filters, name: text}))

    def remove_filter(self, name: str) -> ListView:
        """Forget a filter. OSError if the file cannot be written."""
        return self._change(
            lambda view: replace(
                view, filters={key: text for key, text in view.filters.items() if key != name}
            )
        )

    def _change(self, change: Callable[[ListView], ListView]) -> ListView:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with locked(self._path):
            view = change(self.load())
            columns = None if view.columns is None else [*view.columns]
            content = {"v": _VERSION, "columns": columns, "filters": {**view.filters}}
            jsonl.write_json(self._path, content)
        return view


def check_filter_name(name: str, known: Mapping[str, str]) -> str:
    """Return the name of a filter to save. UsageError for one that no command line could tell."""
    if not name or not all(char.isalnum() or char in "-_" for char in name):
        raise UsageError("A name has letters, digits, - and _ only, e.g. failed-today")
    if len(name) > _LONGEST_NAME:
        raise UsageError(f"A name has at most {_LONGEST_NAME} characters")
    if name not in known and len(known) >= _MOST:
        raise UsageError(f"{_MOST} filters are saved (maximum): delete one first")
    return name


def _texts(values: Iterable[Any]) -> tuple[str, ...]:
    """The texts of one line among the values."""
    return tuple(value for value in values if jsonl.line(value) == value)
