"""Runs on the disk, with checkpoints, as those that are put away."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from engine.base import jsonl
from engine.base.typed import to_json
from engine.run.checkpoints.ownership import STAMP, Stamp
from engine.run.checkpoints.step_folders import TRACKER
from engine.run.run import Run
from engine.run.state import RunState, write_state
from tests.engine.run.checkpoints.checkpoint_files import save

CONSOLE = b"x" * 1000


def make_run(root: Path, name: str = "old", state: RunState | None = None, **manifest: Any) -> Run:
    run = Run(root / name)
    run.attempt(1).path.mkdir(parents=True)
    run.attempt(1).console.write_bytes(CONSOLE)
    facts = {"v": 1, "id": name, "kind": "grpo", "created": 1e9, "cwd": str(root.parent)}
    jsonl.write_json(
        run.manifest_file, {**facts, "checkpoint_dir": f"checkpoints/{name}", **manifest}
    )
    write_state(run, state or RunState("finished", ended=2e9))
    return run


def save_checkpoint(run: Run, stamped: bool = True) -> Path:
    folder = run.path.parent.parent / "checkpoints" / run.id
    (folder / "global_step_5" / "actor").mkdir(parents=True)
    (folder / "global_step_5" / "actor" / "model.pt").write_bytes(b"x" * 5000)
    (folder / TRACKER).write_text("5")
    if stamped:
        jsonl.write_json(folder / STAMP, to_json(Stamp.of(run, run.read_manifest())))
    return folder


STEPS = (10, 20, 30, 40)
REWARDS = {10: 0.1, 20: 0.9, 30: 0.5, 40: 0.4}


def make_trained(
    root: Path,
    name: str = "old",
    state: RunState | None = None,
    *,
    metric: str = "val/reward",
    values: Mapping[int, float] = REWARDS,
) -> tuple[Run, Path]:
    """A run that saved and validated at every tenth step."""
    run = make_run(root, name, state)
    folder = root.parent / "checkpoints" / name
    save(folder, *STEPS)
    jsonl.write_json(folder / STAMP, to_json(Stamp.of(run, run.read_manifest())))
    for step, value in values.items():
        line = {"v": 1, "step": step, "attempt": 1, "t": 1.0, "metrics": {metric: value}}
        jsonl.append(run.train_log, line)
    return run, folder
