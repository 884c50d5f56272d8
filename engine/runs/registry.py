"""List the runs of a runs folder, and follow those that have not ended."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from engine.base import jsonl
from engine.runs.columns import RunInfo
from engine.runs.index import Index, Row
from engine.runs.index import stamp as stamp_of
from engine.runs.notes import Notes, read_notes
from engine.runs.rundir import RunDir, folder_names, there
from engine.runs.state import (
    UNREADABLE,
    RunState,
    observe,
    observed_state,
    recorded_state,
    state_from_json,
    with_first_start,
)
from engine.runs.trust import is_neighbor

_WHILE_IT_GOES_ON = ("trainer", "supervisor", "heartbeat", "beat", "host")
"""What nobody asks of a run that has ended."""
_LONGEST = 200
"""Characters of a name that the list keeps."""
_NO_NOTES = Notes()


def list_runs(root: Path, index: Index | None = None) -> list[RunInfo]:
    """Every run below ``root``; the one that was started or resumed last comes first.

    Unchanged runs come from the index.
    """
    index = index or Index(root)
    known, changed, found = index.read(), {}, []
    for name, stamp in _stamps(root):
        cached = known.pop(name, None)
        if cached is None or cached[0] != stamp:
            # The stamp is older than what is read here: a change in between is seen next time.
            cached = changed[name] = (stamp, _row(RunDir(root / name)))
        found.append(_info(root, name, cached[1]))
    index.update(changed, gone=set(known))
    return sorted(found, key=lambda info: info.state.started or info.started or 0.0, reverse=True)


def active_run(root: Path) -> RunInfo | None:
    """The newest run that goes on, else the newest that waits in the queue, or None."""
    active = [info for info in list_runs(root) if not info.state.has_ended]
    return next((info for info in active if info.state.state != "queued"), next(iter(active), None))


def _stamps(root: Path) -> Iterator[tuple[str, str]]:
    """``(id, stamp)`` of every folder that holds a run."""
    folder = str(root)
    for name in folder_names(root):
        try:
            stamp = stamp_of(f"{folder}/{name}/state.json")
        except OSError:
            if not there(f"{folder}/{name}/manifest.json"):
                continue
            stamp = "no state"
        yield name, stamp + _notes_stamp(f"{folder}/{name}/notes.json")


def _notes_stamp(file: str) -> str:
    """Most runs have no notes, and their stamp is that of the state alone."""
    if not os.access(file, os.F_OK):  # An error for each of ten thousand runs would take longer.
        return ""
    try:
        return f" {stamp_of(file)}"
    except OSError:
        return ""


def _row(run: RunDir) -> Row:
    """What the index keeps of a run: as little as the list needs."""
    shown = ("recipe", "kind", "created")
    manifest, state = run.read_manifest(*shown, "attempts"), recorded_state(run)
    row: Row = {key: _short(manifest.get(key)) for key in shown}
    if notes := read_notes(run):
        row["notes"] = notes.to_json()
    return row if state is None else {**row, "state": _state_row(with_first_start(state, manifest))}


def _short(value: Any) -> Any:
    return value[:_LONGEST] if isinstance(value, str) else value


def _state_row(state: RunState) -> Row:
    dropped = _WHILE_IT_GOES_ON if state.has_ended else ()
    return {k: v for k, v in asdict(state).items() if v is not None and k not in dropped}


def _info(root: Path, name: str, row: Row) -> RunInfo:
    """Safe to show whatever the row says."""
    recorded = state_from_json(row.get("state"))
    state = UNREADABLE if recorded is None else recorded
    if not state.has_ended:  # Making path objects for all ended runs would take long.
        run = RunDir(root / name)
        state = observe(state, run)
        if state.state == "lost":
            state = observed_state(run)  # It may have ended since its file was read.
    return RunInfo(
        name,
        state,
        recipe=jsonl.line(row.get("recipe")) or "?",
        kind=jsonl.line(row.get("kind")) or "?",
        started=state.first_start or jsonl.moment(row.get("created")),
        notes=Notes.from_json(row["notes"]) if "notes" in row else _NO_NOTES,
    )


class ActiveRuns:
    """Reads a state file again only when it was replaced, so a folder of old runs costs little."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._known: dict[str, tuple[str, RunState | None]] = {}

    def look(self) -> dict[str, RunState]:
        """The runs that have not ended, by id, without those of strangers (``is_neighbor``): nobody
        waits on their word."""
        self._known = {
            name: found for name in folder_names(self._root) if (found := self._of(name))
        }
        states = {name: state for name, (_, state) in self._known.items() if state is not None}
        observed = {name: observe(s, RunDir(self._root / name)) for name, s in states.items()}
        active = {name: state for name, state in observed.items() if not state.has_ended}
        return {name: s for name, s in active.items() if is_neighbor(f"{self._root}/{name}")}

    def _of(self, name: str) -> tuple[str, RunState | None] | None:
        """Stamp and state of a run; no state once it has ended, None when there is no run.

        What cannot be read is as it was: its supervisor, if it lives, writes it again.
        """
        known = self._known.get(name)
        try:
            now = stamp_of(f"{self._root}/{name}/state.json")
        except OSError:
            return known
        if known is not None and known[0] == now:
            return known
        state = recorded_state(RunDir(self._root / name))
        if state is None:
            return known
        return now, None if state.has_ended else state
