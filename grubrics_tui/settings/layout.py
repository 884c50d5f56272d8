"""Which panels the live screen shows, in which order: changed on the screen, kept in a file."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from engine.base import jsonl, locks
from engine.runs.kinds import GRPO, KINDS, find_kind

UNKNOWN = "unknown"
"""The layout of a run whose manifest names no known kind."""
_TITLES = {"time": "step time", "optimiser": "optimizer"}
"""Titles of panels whose name in the settings differs."""
_OTHER_PANELS = {
    # A reward function scores, so there is no judge.
    "own": tuple(panel for panel in GRPO.panels if panel != "judge"),
    UNKNOWN: ("time", "machine", "log", "validation"),
}
JOIN = "+"
_VERSION = 1
_MOST = 60
_PATIENCE_S = 5.0

_LOWEST_PANEL = 10
_WIDE, _WIDER = 100, 165
_LOW = 26
"""Rows of the grid below which two rows of panels would both be too low."""


def panel_title(name: str) -> str:
    """The title of a built-in panel, known before the panels are imported."""
    return _TITLES.get(name, name)


@dataclass(frozen=True)
class Slot:
    """A built-in panel by its name, or the metrics that share a pinned one."""

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
    """Slots in order, no two of one name; ``current`` is the name of the chosen one."""

    slots: tuple[Slot, ...]
    current: str = ""

    @property
    def shown(self) -> tuple[Slot, ...]:
        return tuple(slot for slot in self.slots if not slot.hidden)

    @property
    def names(self) -> list[str]:
        """Of the panels that are shown, in order."""
        return [slot.name for slot in self.shown]

    @property
    def place(self) -> int:
        """Where the current panel stands among those shown."""
        return self.names.index(self.current) if self.current in self.names else 0

    def chosen(self, place: int) -> Layout:
        """With another current panel; a place that has none changes nothing."""
        return replace(self, current=self.names[place]) if 0 <= place < len(self.names) else self

    def turned(self, by: int) -> Layout:
        """With the next or an earlier panel current, round and round."""
        count = len(self.names)
        return self.chosen((self.place + by) % count) if count else self

    def moved(self, by: int) -> Layout:
        """With the current panel further along; the ends stop it."""
        names, place = self.names, self.place
        target = place + by
        if not 0 <= target < len(names):
            return self
        slots = list(self.slots)
        one, other = (self._index(names[index]) for index in (place, target))
        slots[one], slots[other] = slots[other], slots[one]
        return replace(self, slots=tuple(slots), current=names[place])

    def put_away(self) -> Layout:
        """Without the current panel: a pin is gone, a built-in one hidden. One always stays."""
        if len(self.shown) < 2:
            return self
        index, place = self._index(self.names[self.place]), self.place
        slot = self.slots[index]
        kept = () if slot.is_pin else (replace(slot, hidden=True),)
        left = replace(self, slots=(*self.slots[:index], *kept, *self.slots[index + 1 :]))
        return left.chosen(min(place, len(left.names) - 1))

    def with_slot(self, slot: Slot) -> Layout:
        """With a panel shown and current; a new one comes before the log, in sight of the rest."""
        slots = list(self.slots)
        known = [other.name for other in slots]
        if slot.name in known:
            slots[known.index(slot.name)] = replace(slot, hidden=False)
        else:
            slots.insert(self._index(self.current) + 1 if self.current in known else 0, slot)
        return Layout(tuple(slots[:_MOST]), slot.name)

    def _index(self, name: str) -> int:
        return [slot.name for slot in self.slots].index(name)


def default_panels(layout: str) -> tuple[str, ...]:
    """The panels of a layout: of a kind of run, ``own`` or ``unknown``."""
    kind = find_kind(layout)
    return kind.panels if kind else _OTHER_PANELS.get(layout, _OTHER_PANELS[UNKNOWN])


def slot_of(name: str) -> Slot:
    """A panel by its name in the settings: a built-in one, or metrics joined by ``+``."""
    if any(name in kind.panels for kind in KINDS.values()):
        return Slot(panel=name)
    return Slot(metrics=tuple(part.strip() for part in name.split(JOIN) if part.strip()))


def first_layout(kind: str, wanted: Sequence[str] = ()) -> Layout:
    """What is shown before anything was changed; panels that are not wanted are hidden."""
    usual = default_panels(kind)
    slots = [slot_of(name) for name in dict.fromkeys(wanted or usual)]
    slots = [slot for slot in slots if slot.is_pin or slot.panel in usual] or [Slot(usual[0])]
    others = [Slot(name, hidden=True) for name in usual if Slot(name) not in slots]
    return Layout((*slots, *others), slots[0].name)


def layout_path(env: Mapping[str, str] = os.environ) -> Path:
    base = env.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(base) / "grubrics-tui" / "layout.json"


class LayoutFile:
    """Layouts by kind of run. A file that is missing, torn or foreign is an empty one.

    A layout that was made from other ``panels`` settings than today's is not used: who edits the
    settings file wants to see it. Several screens may have the file open: who only turned to
    another panel leaves the panels that somebody else chose meanwhile as they are.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path or layout_path()
        self._known: dict[str, tuple[Slot, ...]] = {}
        """The slots by kind of run as they were read or written last."""

    def load(self, kind: str, wanted: Sequence[str] = ()) -> Layout:
        layout = self._kept(kind, wanted) or first_layout(kind, wanted)
        self._known[kind] = layout.slots
        return layout

    def save(self, kind: str, layout: Layout, wanted: Sequence[str] = ()) -> None:
        """Keep a layout; OSError when there is no room or no right to."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with _alone(self._path):
            others = self._kept(kind, wanted)
            changed = self._known.get(kind) != layout.slots
            slots = layout.slots if changed or others is None else others.slots
            plain = [_plain(slot) for slot in slots]
            kept = {"settings": list(wanted), "slots": plain, "current": layout.current}
            jsonl.write_json(self._path, {"v": _VERSION, "kinds": {**self._kinds(), kind: kept}})
        self._known[kind] = layout.slots

    def _kept(self, kind: str, wanted: Sequence[str]) -> Layout | None:
        """The layout in the file, if it was made from these settings."""
        kept = self._kinds().get(kind)
        if not isinstance(kept, dict) or kept.get("settings", []) != list(wanted):
            return None
        first = first_layout(kind, wanted)
        return _merged(_slots(kept.get("slots")), str(kept.get("current")), first)

    def _kinds(self) -> dict[str, Any]:
        kinds = (jsonl.read_json(self._path) or {}).get("kinds")
        return kinds if isinstance(kinds, dict) else {}


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """While no other screen reads and writes the file; the lock lies beside it, as the file itself
    is replaced."""
    with path.with_name(f"{path.name}.lock").open("w") as lock:
        locks.take(lock.fileno(), path, fcntl.flock, _PATIENCE_S)
        yield


def _plain(slot: Slot) -> dict[str, Any]:
    """As the file holds it."""
    what = {"metrics": list(slot.metrics)} if slot.is_pin else {"panel": slot.panel}
    return {**what, **({"hidden": True} if slot.hidden else {})}


def _slots(raw: Any) -> list[Slot]:
    found = [_slot(one) for one in raw[:_MOST]] if isinstance(raw, list) else []
    return [slot for slot in found if slot is not None]


def _slot(raw: Any) -> Slot | None:
    if not isinstance(raw, dict):
        return None
    hidden, metrics = raw.get("hidden") is True, raw.get("metrics")
    if isinstance(metrics, list):
        names = tuple(name for one in metrics[:8] if (name := jsonl.line(one)))
        return Slot(metrics=names, hidden=hidden) if names else None
    panel = jsonl.line(raw.get("panel"))
    return Slot(panel, hidden=hidden) if panel else None


def _merged(kept: Sequence[Slot], current: str, first: Layout) -> Layout:
    """What was kept, without panels that do not exist, with those that are new since."""
    known = {slot.name for slot in first.slots if not slot.is_pin}
    slots = {slot.name: slot for slot in kept if slot.is_pin or slot.name in known}
    for slot in first.slots:
        if not slot.is_pin:
            slots.setdefault(slot.name, slot)
    layout = Layout(tuple(slots.values()), current)
    if not layout.shown:
        return first
    return layout if current in layout.names else layout.chosen(0)


def room_for(width: int, height: int) -> tuple[int, int]:
    """Columns and rows of panels in so many cells; one alone where more would be too small."""
    if width < _WIDE - 2 or height < _LOW:
        return 1, 1
    return (2 if width < _WIDER else 3), max(1, height // _LOWEST_PANEL)
