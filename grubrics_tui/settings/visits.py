"""When the user last looked at the runs of each folder."""

from __future__ import annotations

import time
from pathlib import Path

from engine.base import jsonl
from grubrics_tui.settings.layout import layout_path, locked

_VERSION = 1
_MOST = 200
"""Folders that are remembered; the ones visited last stay."""


def visits_path() -> Path:
    return layout_path().with_name("visits.json")


class VisitFile:
    """The time of the last visit by runs folder. A missing or damaged file means there was none.

    Several TUIs may use the file: each changes only its own folder's entry, under a lock.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path or visits_path()

    def read(self, root: Path) -> float | None:
        """Unix seconds of the last visit; None if there was none, or if it is in the future because
        the clock was set back."""
        moment = self._visits().get(_key(root))
        return moment if moment is not None and moment <= time.time() else None

    def record(self, root: Path) -> None:
        """Note a visit now. OSError if the file cannot be written."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with locked(self._path):
            visits = {**self._visits(), _key(root): time.time()}
            latest = sorted(visits, key=lambda folder: visits[folder])[-_MOST:]
            kept = {folder: visits[folder] for folder in latest}
            jsonl.write_json(self._path, {"v": _VERSION, "visits": kept})

    def _visits(self) -> dict[str, float]:
        raw = (jsonl.read_json(self._path) or {}).get("visits")
        entries = raw.items() if isinstance(raw, dict) else ()
        return {folder: at for folder, value in entries if (at := jsonl.moment(value)) is not None}


def _key(root: Path) -> str:
    """The same for every path to a folder; a path may be invalid as text."""
    return ascii(str(root.resolve()))
