"""Runs on the disk, with checkpoints, as those that are put away."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from engine.base import jsonl
from engine.checkpoints.ownership import STAMP, Stamp
from engine.checkpoints.step_folders import TRACKER
from engine.runs.rundir import RunDir
from engine.runs.state import RunState, write_state

CONSOLE = b"x" * 1000


def make_run(
    root: Path, name: str = "old", state: RunState | None = None, **manifest: Any
) -> RunDir:
    run = RunDir(root / name)
    run.attempt(1).path.mkdir(parents=True)
    run.attempt(1).console.write_bytes(CONSOLE)
    facts = {"v": 1, "id": name, "kind": "grpo", "created": 1e9, "cwd": str(root.parent)}
    jsonl.write_json(run.manifest, {**facts, "checkpoint_dir": f"checkpoints/{name}", **manifest})
    write_state(run, state or RunState("finished", ended=2e9))
    return run


def save_checkpoint(run: RunDir, stamped: bool = True) -> Path:
    folder = run.path.parent.parent / "checkpoints" / run.id
    (folder / "global_step_5" / "actor").mkdir(parents=True)
    (folder / "global_step_5" / "actor" / "model.pt").write_bytes(b"x" * 5000)
    (folder / TRACKER).write_text("5")
    if stamped:
        jsonl.write_json(folder / STAMP, asdict(Stamp.of(run, run.read_manifest())))
    return folder
