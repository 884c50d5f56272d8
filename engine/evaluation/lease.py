"""Keep the weights of a checkpoint while they are evaluated, whatever the trainer deletes."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from engine.evaluation.targets import Target

_WEIGHTS = ("model_world_size_*.pt", "lora_train_meta.json", "fsdp_config.json", "huggingface/*")


@contextmanager
def leased(target: Target, folder: Path) -> Iterator[str]:
    """Yield a path with the target's weights that stays until the end.

    verl deletes old checkpoints when it saves new ones. Hard links below ``folder`` keep the files
    without a second copy. Where the file system has no hard links, the checkpoint itself is used.
    """
    if target.form != "checkpoint":
        yield target.source
        return
    lease = folder / "weights"
    shutil.rmtree(lease, ignore_errors=True)
    try:
        try:
            _link(Path(target.source), lease)
            source = str(lease.absolute())
        except OSError:
            source = target.source
        yield source
    finally:
        shutil.rmtree(lease, ignore_errors=True)


def _link(checkpoint: Path, lease: Path) -> None:
    shards = checkpoint / "actor" if (checkpoint / "actor").is_dir() else checkpoint
    for pattern in _WEIGHTS:
        for file in shards.glob(pattern):
            if file.is_file():
                link = lease / file.relative_to(shards)
                link.parent.mkdir(parents=True, exist_ok=True)
                os.link(file, link)
