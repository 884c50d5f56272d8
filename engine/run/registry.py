"""List the runs of a runs directory, and follow the active ones."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from msgspec.structs import replace

from engine.base import jsonl
from engine.base.text import sparkline
from engine.run.columns import RunRow
from engine.run.figures import read_figures
from engine.run.index import Index
from engine.run.index import stamp as stamp_of
from engine.run.notes import NO_NOTES, read_notes
from engine.run.run import Run, exists, folder_names
from engine.run.state import (
    RunState,
    observe,
    observed_state,
    recorded_state,
    unreadable,
)
from engine.run.trust import is_neighbor

_LONGEST, _LONGEST_CHANGE, _MOST_CHANGES = 200, 2000, 100
"""Characters of a name and of an override in the list, and how many overrides."""


def list_runs(root: Path, index: Index[RunRow] | None = None) -> list[RunRow]:
    """Every run below ``root``; the one that started or was resumed last comes first.

    Unchanged runs come from the index.
    """
    index = index or Index(root, RunRow)
    cache, changed, rows = index.read(), {}, []
    for name, stamp in _stamps(root):
        cached = cache.pop(name, None)
        if cached is None or cached[0] != stamp or cached[1].id != name:
            # The stamp is older than the row: a change in between is noticed next time.
            run = Run(root / name)
            state = recorded_state(run)
            cached = (stamp, read_row(run, unreadable(run) if state is None else _brief(state)))
            if state is not None:  # What cannot be read now may be readable later.
                changed[name] = cached
        rows.append(_observed(root, cached[1]))
    index.update(changed, gone=set(cache))
    return sorted(rows, key=lambda row: row.state.started or row.started or 0.0, reverse=True)


def _stamps(root: Path) -> Iterator[tuple[str, str]]:
    """``(id, stamp)`` of every folder that holds a run."""
    folder = str(root)
    for name in folder_names(root):
        try:
            stamp = stamp_of(f"{folder}/{name}/state.json")
        except OSError:
            if not exists(f"{folder}/{name}/manifest.json"):
                continue
            stamp = "no state"
        yield name, stamp + _notes_stamp(f"{folder}/{name}/notes.json")


def _notes_stamp(file: str) -> str:
    """Empty for a run without notes, as most are."""
    if not os.access(file, os.F_OK):  # Faster than ten thousand exceptions.
        return ""
    try:
        return f" {stamp_of(file)}"
    except OSError:
        return ""


def read_row(run: Run, state: RunState) -> RunRow:
    """The row of a run in this state."""
    manifest, figures = run.read_manifest(), read_figures(run.train_log)
    changed = (jsonl.line(text) or "" for text in manifest.format_changes()[:_MOST_CHANGES])
    return RunRow(
        id=run.id,
        state=state,
        config=(manifest.config_name or "?")[:_LONGEST],
        kind=(manifest.listed_kind or "?")[:_LONGEST],
        created=manifest.created,
        changed=tuple(text[:_LONGEST_CHANGE] for text in changed),
        reward=figures.rewards[-1] if figures.rewards else None,
        curve=sparkline(figures.rewards),
        train_loss=figures.losses[-1] if figures.losses else None,
        loss_curve=sparkline(figures.losses),
        validation=figures.validation,
        notes=read_notes(run) if exists(str(run.notes_file)) else NO_NOTES,
    )


def _brief(state: RunState) -> RunState:
    """The state without what only says whether a run is still active, if it has ended."""
    if not state.has_ended:
        return state
    return replace(state, trainer=None, supervisor=None, heartbeat=None, beat=None, host=None)


def _observed(root: Path, row: RunRow) -> RunRow:
    """The row of the run as it is now."""
    if row.state.has_ended:  # Path objects for all ended runs would take long.
        return row
    run = Run(root / row.id)
    state = observe(row.state, run)
    if state.state == "lost":
        state = observed_state(run)  # It may have ended since its file was read.
    return replace(row, state=state)


class ActiveRuns:
    """Reads a state file again only if it was replaced, so ended runs cost little."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._states: dict[str, tuple[str, RunState | None]] = {}

    def read(self) -> dict[str, RunState]:
        """The active runs by ID, without those of other users (see ``is_neighbor``), whose state
        files nobody here should wait for."""
        self._states = {
            name: entry for name in folder_names(self._root) if (entry := self._entry(name))
        }
        states = {name: state for name, (_, state) in self._states.items() if state is not None}
        observed = {name: observe(s, Run(self._root / name)) for name, s in states.items()}
        active = {name: state for name, state in observed.items() if not state.has_ended}
        return {name: s for name, s in active.items() if is_neighbor(f"{self._root}/{name}")}

    def _entry(self, name: str) -> tuple[str, RunState | None] | None:
        """Stamp and state of a run; no state if it has ended, None if there is no run.

        An unreadable state stays as it was: a live supervisor writes it again.
        """
        before = self._states.get(name)
        try:
            now = stamp_of(f"{self._root}/{name}/state.json")
        except OSError:
            return before
        if before is not None and before[0] == now:
            return before
        state = recorded_state(Run(self._root / name))
        if state is None:
            return before
        return now, None if state.has_ended else state
