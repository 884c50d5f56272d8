"""Run directories as a supervisor leaves them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from engine.base import jsonl
from engine.run.run import Run
from engine.run.state import RunState, write_state

CREATED = 1_700_000_000.0


def make_run(root: Path, kind: str = "grpo", **manifest: Any) -> Run:
    """A finished run whose checkpoints go to ``root/checkpoints``."""
    run = Run(root / "runs" / "grpo-1")
    run.path.mkdir(parents=True)
    key = "trainer.default_local_dir" if kind == "grpo" else "training.output_dir"
    contents = {
        "v": 1,
        "id": run.id,
        "recipe": "grpo_tiny",
        "kind": kind,
        "config_path": "configs/grpo_tiny.yaml",
        "cwd": str(root),
        "created": CREATED,
        "config": {key: {"value": "checkpoints", "origin": "file"}},
        "changes": [],
    }
    jsonl.write_json(run.manifest_file, {**contents, **manifest})
    state = RunState("finished", started=CREATED, ended=CREATED + 3725, step=20, total_steps=20)
    write_state(run, state)
    return run


def log_steps(run: Run, metrics: Sequence[Mapping[str, float | None]], attempt: int = 1) -> None:
    """Steps 1, 2, ... in the train log."""
    for number, values in enumerate(metrics, start=1):
        record = {"v": 1, "step": number, "attempt": attempt, "t": CREATED, "metrics": dict(values)}
        jsonl.append(run.train_log, record)
