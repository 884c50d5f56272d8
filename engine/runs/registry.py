"""The runs of a runs folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.runs.rundir import RunDir, run_ids
from engine.runs.state import RunState, observed_state


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


def list_runs(root: Path) -> list[RunInfo]:
    """Every run below ``root``, newest first."""
    found = [describe_run(RunDir(root / name)) for name in run_ids(root)]
    return sorted(found, key=lambda info: info.started or 0.0, reverse=True)


def active_run(root: Path) -> RunInfo | None:
    """The newest run that has not ended, or None."""
    return next((info for info in list_runs(root) if not info.state.has_ended), None)


def describe_run(run: RunDir) -> RunInfo:
    manifest, state = run.read_manifest(), observed_state(run)
    started = state.started or manifest.get("created")
    return RunInfo(
        run.id,
        state,
        str(manifest.get("recipe", "?")),
        str(manifest.get("kind", "?")),
        started,
    )
