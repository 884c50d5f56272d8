"""List the runs of a runs directory, and follow the active ones."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from engine.base import jsonl
from engine.base.text import sparkline
from engine.run.columns import RunInfo
from engine.run.figures import read_figures
from engine.run.index import Index, Row
from engine.run.index import stamp as stamp_of
from engine.run.kinds import ADOPTED, COMMAND, PIPELINE, listed_kind
from engine.run.manifest import format_changes
from engine.run.notes import Notes, read_notes
from engine.run.rundir import RunDir, exists, folder_names
from engine.run.state import (
    RunState,
    observe,
    observed_state,
    recorded_state,
    state_from_json,
    unreadable,
)
from engine.run.trust import is_neighbor

_ACTIVE_FIELDS = ("trainer", "supervisor", "heartbeat", "beat", "host")
"""Fields of a state that an ended run does not need."""
_LONGEST = 200
"""Characters of a name in the list."""
_LONGEST_CHANGE = 2000
"""Characters of an override."""
_MOST_CHANGES = 100
_NO_NOTES = Notes()


def list_runs(root: Path, index: Index | None = None) -> list[RunInfo]:
    """Every run below ``root``; the one that started or was resumed last comes first.

    Unchanged runs come from the index.
    """
    index = index or Index(root)
    cache, changed, runs = index.read(), {}, []
    for name, stamp in _stamps(root):
        cached = cache.pop(name, None)
        if cached is None or cached[0] != stamp:
            # The stamp is older than the row: a change in between is noticed next time.
            cached = (stamp, _row(RunDir(root / name)))
            if "state" in cached[1]:  # What cannot be read now may be readable later.
                changed[name] = cached
        runs.append(_info(root, name, cached[1]))
    index.update(changed, gone=set(cache))
    return sorted(runs, key=lambda info: info.state.started or info.started or 0.0, reverse=True)


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


def _row(run: RunDir) -> Row:
    """The row of the index: only what the list needs."""
    shown = ("recipe", "kind", "created")
    manifest, state = run.read_manifest("id", *shown, "attempts", "changes"), recorded_state(run)
    row: Row = {}
    for key in shown:
        value = manifest.get(key)
        row[key] = value[:_LONGEST] if isinstance(value, str) else value
    if changed := format_changes(manifest):
        row["changed"] = [_cut(text) for text in changed[:_MOST_CHANGES]]
    if manifest.get("kind") == COMMAND:
        row["kind"] = listed_kind(manifest | run.read_manifest(ADOPTED, PIPELINE))
    row |= _figures(run)
    if exists(str(run.notes)) and (notes := read_notes(run)):
        row["notes"] = notes.to_json()
    if state is not None:
        # ``asdict`` copies every value, which takes long for ten thousand ended runs.
        fields = vars(state) if state.has_ended else asdict(state)
        dropped = _ACTIVE_FIELDS if state.has_ended else ()
        row["state"] = {k: v for k, v in fields.items() if v is not None and k not in dropped}
    return row


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_CHANGE else f"{text[: _LONGEST_CHANGE - 1]}…"


def _figures(run: RunDir) -> Row:
    figures = read_figures(run.train_log)
    row: Row = {"validation": figures.validation} if figures.validation is not None else {}
    if figures.rewards:
        row |= {"reward": figures.rewards[-1], "curve": sparkline(figures.rewards)}
    if figures.losses:
        row |= {"train_loss": figures.losses[-1], "loss_curve": sparkline(figures.losses)}
    return row


def _info(root: Path, name: str, row: Row) -> RunInfo:
    """The run as it is now; safe to display, even if the index was edited."""
    recorded = state_from_json(row.get("state"))
    state = unreadable(RunDir(root / name)) if recorded is None else recorded
    if not state.has_ended:  # Path objects for all ended runs would take long.
        run = RunDir(root / name)
        state = observe(state, run)
        if state.state == "lost":
            state = observed_state(run)  # It may have ended since its file was read.
    info = object.__new__(RunInfo)
    # The constructor of a frozen class takes three times as long: too long for ten thousand runs.
    info.__dict__.update(
        id=name,
        state=state,
        config=jsonl.line(row.get("recipe")) or "?",
        kind=jsonl.line(row.get("kind")) or "?",
        started=state.first_start or jsonl.moment(row.get("created")),
        notes=Notes.from_json(row["notes"]) if "notes" in row else _NO_NOTES,
        reward=jsonl.number(row.get("reward")),
        curve=jsonl.line(row.get("curve")) or "",
        train_loss=jsonl.number(row.get("train_loss")),
        loss_curve=jsonl.line(row.get("loss_curve")) or "",
        validation=jsonl.number(row.get("validation")),
        changed=_texts(row["changed"]) if "changed" in row else (),
        health="",
    )
    return info


def _texts(value: Any) -> tuple[str, ...]:
    items = value if isinstance(value, list) else ()
    return tuple(text for item in items if (text := jsonl.line(item)))


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
        observed = {name: observe(s, RunDir(self._root / name)) for name, s in states.items()}
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
        state = recorded_state(RunDir(self._root / name))
        if state is None:
            return before
        return now, None if state.has_ended else state
