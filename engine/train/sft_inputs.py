"""The inputs of an SFT attempt: its conversations, as parquet for verl, and its checkpoint."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from engine.base.errors import UsageError
from engine.config.load import Config
from engine.data.conversations import Conversation
from engine.run.checkpoints.step_folders import WantedFiles, step_of, step_problem


def shuffled(conversations: list[Conversation], seed: int) -> list[Conversation]:
    """The conversations in an order that ``seed`` decides.

    verl shuffles each epoch with the same random numbers, whatever ``training.seed`` is: without
    this, runs with different seeds see the same batches.
    """
    order = list(conversations)
    random.Random(seed).shuffle(order)
    return order


def write_parquet(conversations: list[Conversation], path: Path) -> Path:
    pq.write_table(pa.table({"messages": conversations}), path)
    return path


def starting_checkpoint(config: Config, steps_per_epoch: int, links: Path) -> Path | None:
    """The folder for verl's ``training.resume_from``, or None to start from the model.

    At the end of an epoch the saved position is the end of the data: verl would train nothing for a
    whole epoch and then miss one. Without a saved position it starts the next epoch at its
    beginning, in its order. So it gets ``links``, a folder of links to everything else.
    Raises UsageError for a folder that is not a complete checkpoint.
    """
    resume_from = config.get("training.resume_from")
    if resume_from is None:
        return None
    checkpoint = Path(resume_from)
    step = saved_step(checkpoint)
    problem = step_problem(checkpoint, WantedFiles.by_config(config.values))
    if problem is not None:
        raise UsageError(f"training.resume_from={checkpoint}: incomplete, {problem}")
    if step % steps_per_epoch:
        return checkpoint
    print(f"step {step} ended an epoch; the next epoch starts at its first row", flush=True)
    return _link_without_position(checkpoint, links)


def saved_step(checkpoint: Path) -> int:
    """The step of a ``global_step_<n>`` folder. Raises UsageError for another name."""
    step = step_of(checkpoint)
    if step is None:
        raise UsageError(f"training.resume_from={checkpoint}: not a global_step_<n> folder")
    return step


def _link_without_position(checkpoint: Path, links: Path) -> Path:
    """Link every file of the checkpoint except the position in the data."""
    folder = links / checkpoint.name
    folder.mkdir(parents=True, exist_ok=True)
    for file in checkpoint.iterdir():
        link = folder / file.name
        if not file.match("data_*.pt") and not link.is_symlink():
            link.symlink_to(file.resolve())
    return folder
