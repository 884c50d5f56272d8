"""Checkpoint folders as verl writes them."""

from __future__ import annotations

import zipfile
from pathlib import Path

from engine.records.step_folders import TRACKER


def archive(path: Path) -> None:
    """The smallest file that torch could have saved: an empty zip archive."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w"):
        pass


def grpo_files(ranks: int = 1) -> list[str]:
    """What a step folder of GRPO holds, in the order verl writes it."""
    kinds = ("model", "optim", "extra_state")
    shards = [f"actor/{k}_world_size_{ranks}_rank_{r}.pt" for k in kinds for r in range(ranks)]
    return [*shards, "data.pt"]


def sft_files(ranks: int = 1) -> list[str]:
    """The same for SFT."""
    shards = [name.removeprefix("actor/") for name in grpo_files(ranks)[:-1]]
    return [*shards, *(f"data_{rank}.pt" for rank in range(ranks))]


def save_step(folder: Path, step: int, files: list[str] | None = None) -> Path:
    """A whole step folder below ``folder``, without the tracker that comes last."""
    path = folder / f"global_step_{step}"
    for name in grpo_files() if files is None else files:
        archive(path / name)
    return path


def track(folder: Path, step: int) -> Path:
    tracker = folder / TRACKER
    tracker.write_text(str(step))
    return tracker


def save(folder: Path, *steps: int) -> None:
    """Steps as a run leaves them behind, one after the other."""
    for step in steps:
        save_step(folder, step)
        track(folder, step)
