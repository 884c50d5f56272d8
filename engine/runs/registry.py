"""The runs of a runs folder."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from engine import jsonl
from engine.runs.index import Index, encode
from engine.runs.index import stamp as stamp_of
from engine.runs.rundir import RunDir, folder_names
from engine.runs.state import UNREADABLE, RunState, observe, recorded_state, state_from_json


@dataclass(frozen=True)
class RunInfo:
    """One row of the list of runs."""

    id: str
    state: RunState
    recipe: str
    kind: str
    started: float | None

    def to_json(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "state": self.state.state,
            "reason": self.state.reason,
            "step": self.state.step,
            "total_steps": self.state.total_steps,
            "recipe": self.recipe,
            "kind": self.kind,
            "started": self.started,
        }


def list_runs(root: Path, index: Index | None = None) -> list[RunInfo]:
    """Every run below ``root``, newest first. Unchanged runs come from the index."""
    index = index or Index(root)
    known, changed, found = index.read(), {}, []
    for name, stamp in _stamps(root):
        cached = known.pop(name, None)
        if cached is None or cached[0] != stamp:
            cached = (stamp, encode(_record(RunDir(root / name))))
            changed[name] = cached
        found.append(_info(name, json.loads(cached[1])))
    index.update(changed, gone=set(known))
    return sorted(found, key=lambda info: info.started or 0.0, reverse=True)


def active_run(root: Path) -> RunInfo | None:
    """The newest run that has not ended, or None."""
    return next((info for info in list_runs(root) if not info.state.has_ended), None)


def _stamps(root: Path) -> Iterator[tuple[str, str]]:
    """``(id, stamp)`` of every folder that holds a run."""
    for name in folder_names(root):
        try:
            yield name, stamp_of(root / name / "state.json")
        except OSError:
            if (root / name / "manifest.json").exists():
                yield name, "no state"


def _record(run: RunDir) -> dict[str, Any]:
    """What the list needs of a run: small, and safe to show whatever its files say."""
    manifest, state = run.read_manifest(), recorded_state(run)
    return {
        "recipe": jsonl.line(manifest.get("recipe")) or "?",
        "kind": jsonl.line(manifest.get("kind")) or "?",
        "created": jsonl.moment(manifest.get("created")),
        "state": None if state is None else asdict(state),
    }


def _info(name: str, record: dict[str, Any]) -> RunInfo:
    recorded = state_from_json(record["state"])
    state = UNREADABLE if recorded is None else observe(recorded)
    return RunInfo(
        name, state, record["recipe"], record["kind"], state.started or record["created"]
    )
