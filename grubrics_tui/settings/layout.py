"""The panels of the live view, in order: changed in the TUI, saved in a file."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from engine.base import jsonl, locks
from engine.run.kinds import GRPO, KINDS, PIPELINE, find_kind

UNKNOWN = "unknown"
"""The layout of a run whose kind is not known."""
_OTHER_PANELS = {
    # A reward function scores, not a judge.
    "own": tuple(panel for panel in GRPO.panels if panel != "judge"),
    # Of a program whose metrics are not known, the log is what there is to see.
    UNKNOWN: ("log", "time", "machine", "validation"),
    PIPELINE: ("log", "time", "machine"),
}
JOIN = "+"
_VERSION = 1
_MOST = 60
_PATIENCE_S = 5.0

_LOWEST_PANEL = 10
_WIDE, _WIDER = 100, 165
_LOW = 26
"""Below this many rows, the grid has one row of panels."""


def panel_title(name: str) -> str:
    """The title of a built-in panel, known before the panels are imported."""
    return "step time" if name == "time" else name


@dataclass(frozen=True)
class Slot:
    """A built-in panel by its name, or the metrics of a pinned panel."""

    panel: str = ""
    metrics: tuple[str, ...] = ()
    hidden: bool = False

    @property
    def is_pin(self) -> bool:
        return bool(self.metrics)

    @property
    def name(self) -> str:
        return self.panel or JOIN.join(self.metrics)


@dataclass(frozen=True)
class Layout:
    """Slots in order, with different names; ``current`` is the name of the selected one."""

    slots: tuple[Slot, ...]
    current: str = ""

    @property
    def shown(self) -> tuple[Slot, ...]:
        return tuple(slot for slot in self.slots if not slot.hidden)

    @property
    def names(self) -> list[str]:
        """The names of the shown panels, in order."""
        return [slot.name for slot in self.shown]

    @property
    def index(self) -> int:
        """The index of the current panel among the shown ones."""
        return self.names.index(self.current) if self.current in self.names else 0

    def select(self, index: int) -> Layout:
        """Return the layout with another current panel; the same if there is no such panel."""
        return replace(self, current=self.names[index]) if 0 <= index < len(self.names) else self

    def select_next(self, step: int) -> Layout:
        """Return the layout with the panel ``step`` further as the current one, cyclically."""
        count = len(self.names)
        return self.select((self.index + step) % count) if count else self

    def move(self, step: int) -> Layout:
        """Return the layout with the current panel moved; the same at an end."""
        names, target = self.names, self.index + step
        if not 0 <= target < len(names):
            return self
        slots, name = list(self.slots), names[self.index]
        source, destination = self._slot_index(name), self._slot_index(names[target])
        slots[source], slots[destination] = slots[destination], slots[source]
        return replace(self, slots=tuple(slots), current=name)

    def hide(self) -> Layout:
        """Return the layout without the current panel: unpinned or hidden. The last one stays."""
        if len(self.shown) < 2:
            return self
        index = self._slot_index(self.names[self.index])
        slot = self.slots[index]
        hidden = () if slot.is_pin else (replace(slot, hidden=True),)
        layout = replace(self, slots=(*self.slots[:index], *hidden, *self.slots[index + 1 :]))
        return layout.select(min(self.index, len(layout.names) - 1))

    def with_slot(self, slot: Slot) -> Layout:
        """Return the layout with a panel shown and current, a new one after the current panel."""
        slots = list(self.slots)
        names = [known.name for known in slots]
        if slot.name in names:
            slots[names.index(slot.name)] = replace(slot, hidden=False)
        else:
            slots.insert(self._slot_index(self.current) + 1 if self.current in names else 0, slot)
        return Layout(tuple(slots[:_MOST]), slot.name)

    def _slot_index(self, name: str) -> int:
        return [slot.name for slot in self.slots].index(name)


def default_panels(layout: str) -> tuple[str, ...]:
    """Return the panels of a layout: a kind of run, ``own`` or ``unknown``."""
    kind = find_kind(layout)
    return kind.panels if kind else _OTHER_PANELS.get(layout, _OTHER_PANELS[UNKNOWN])


def slot_of(name: str) -> Slot:
    """Parse a panel of the settings: a built-in name, or metrics joined by ``+``."""
    if any(name in kind.panels for kind in KINDS.values()):
        return Slot(panel=name)
    return Slot(metrics=tuple(part.strip() for part in name.split(JOIN) if part.strip()))


def first_layout(kind: str, wanted: Sequence[str] = ()) -> Layout:
    """Return the layout before any change in the TUI; panels that are not wanted are hidden."""
    panels = default_panels(kind)
    slots = [slot_of(name) for name in dict.fromkeys(wanted or panels)]
    slots = [slot for slot in slots if slot.is_pin or slot.panel in panels] or [Slot(panels[0])]
    hidden = [Slot(name, hidden=True) for name in panels if Slot(name) not in slots]
    return Layout((*slots, *hidden), slots[0].name)


def layout_path(env: Mapping[str, str] = os.environ) -> Path:
    base = env.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(base) / "grubrics-tui" / "layout.json"


class LayoutFile:
    """Layouts by kind of run. A missing, damaged or invalid file counts as empty.

    A layout made under other ``panels`` settings is not used, so that editing the settings file has
    an effect. Several TUIs may use the file: one that only selected another panel does not
    overwrite the panels that another one changed.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path or layout_path()
        self._known: dict[str, tuple[Slot, ...]] = {}
        """The slots by kind of run, as last read or written."""

    def load(self, kind: str, wanted: Sequence[str] = ()) -> Layout:
        layout = self._saved(kind, wanted) or first_layout(kind, wanted)
        self._known[kind] = layout.slots
        return layout

    def save(self, kind: str, layout: Layout, wanted: Sequence[str] = ()) -> None:
        """Save a layout. OSError if the file cannot be written."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with locked(self._path):
            saved = self._saved(kind, wanted)
            changed = self._known.get(kind) != layout.slots
            slots = layout.slots if changed or saved is None else saved.slots
            rows: list[dict[str, Any]] = []
            for slot in slots:
                row = {"metrics": list(slot.metrics)} if slot.is_pin else {"panel": slot.panel}
                rows.append({**row, **({"hidden": True} if slot.hidden else {})})
            entry = {"settings": list(wanted), "slots": rows, "current": layout.current}
            jsonl.write_json(self._path, {"v": _VERSION, "kinds": {**self._kinds(), kind: entry}})
        self._known[kind] = layout.slots

    def _saved(self, kind: str, wanted: Sequence[str]) -> Layout | None:
        """Return the layout in the file, if it was made under these settings."""
        entry = self._kinds().get(kind)
        if not isinstance(entry, dict) or entry.get("settings", []) != list(wanted):
            return None
        first = first_layout(kind, wanted)
        rows = entry.get("slots")
        parsed = map(_parse_slot, rows[:_MOST] if isinstance(rows, list) else ())
        slots = [slot for slot in parsed if slot is not None]
        return _merge(slots, str(entry.get("current")), first)

    def _kinds(self) -> dict[str, Any]:
        kinds = (jsonl.read_json(self._path) or {}).get("kinds")
        return kinds if isinstance(kinds, dict) else {}


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Lock the file, through a file beside it because writing replaces it."""
    with path.with_name(f"{path.name}.lock").open("w") as lock:
        locks.take(lock.fileno(), path, _PATIENCE_S)
        yield


def _parse_slot(raw: Any) -> Slot | None:
    if not isinstance(raw, dict):
        return None
    hidden, metrics = raw.get("hidden") is True, raw.get("metrics")
    if isinstance(metrics, list):
        names = tuple(name for metric in metrics[:8] if (name := jsonl.line(metric)))
        return Slot(metrics=names, hidden=hidden) if names else None
    panel = jsonl.line(raw.get("panel"))
    return Slot(panel, hidden=hidden) if panel else None


def _merge(saved: Sequence[Slot], current: str, first: Layout) -> Layout:
    """Return the saved layout without panels that no longer exist, with those that are new."""
    panels = {slot.name for slot in first.slots if not slot.is_pin}
    slots = {slot.name: slot for slot in saved if slot.is_pin or slot.name in panels}
    for slot in first.slots:
        if not slot.is_pin:
            slots.setdefault(slot.name, slot)
    layout = Layout(tuple(slots.values()), current)
    if not layout.shown:
        return first
    return layout if current in layout.names else layout.select(0)


def room_for(width: int, height: int) -> tuple[int, int]:
    """Return the columns and rows of panels for a grid in cells; (1, 1) if more are too small."""
    if width < _WIDE - 2 or height < _LOW:
        return 1, 1
    return (2 if width < _WIDER else 3), max(1, height // _LOWEST_PANEL)
