"""Checkpoint folders as verl writes them."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Sequence
from pathlib import Path

from engine.run.checkpoints.step_folders import TRACKER

MODEL_FILES = ("config.json", "tokenizer.json")
KINDS = ("model", "optim", "extra_state")


def archive(path: Path) -> None:
    """The smallest file that torch could have saved: a zip archive with one entry."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.name == "fsdp_config.json":
        names = [shard.stem.rsplit("_", 3)[1] for shard in path.parent.glob("*_rank_*.pt")]
        ranks = max(map(int, names), default=1)
        path.write_text(json.dumps({"FSDP_version": 2, "world_size": ranks}))
    elif path.suffix == ".json":
        path.write_text("{}")
    else:
        with zipfile.ZipFile(path, "w") as file:
            file.writestr("data.pkl", "")


def grpo_files(ranks: int = 1, kinds: Sequence[str] = KINDS) -> list[str]:
    """What a step folder of GRPO holds, in the order verl writes it."""
    shards = [f"actor/{k}_world_size_{ranks}_rank_{r}.pt" for k in kinds for r in range(ranks)]
    model = [f"actor/huggingface/{name}" for name in MODEL_FILES]
    return [*shards, *model, "actor/fsdp_config.json", "data.pt"]


def sft_files(ranks: int = 1) -> list[str]:
    """The same for SFT."""
    shards = [name.removeprefix("actor/") for name in grpo_files(ranks)[:-1]]
    return [*shards, *(f"data_{rank}.pt" for rank in range(ranks))]


def save_step(folder: Path, step: int, files: list[str] | None = None) -> Path:
    """A whole step folder below ``folder``, without the tracker that comes last. What only LoRA
    adds is in it too: configs with an adapter and without one find what they want."""
    path = folder / f"global_step_{step}"
    names = grpo_files() if files is None else files
    shards = "actor/" if any(name.startswith("actor/") for name in names) else ""
    for name in [*names, f"{shards}lora_train_meta.json"]:
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
