"""Where an SFT attempt goes on: at a checkpoint's place in the data, or at the next epoch."""

from __future__ import annotations

from pathlib import Path

from engine.base.errors import UsageError
from engine.checkpoints.step_folders import WantedFiles, step_of, step_problem
from engine.recipe.recipe import Recipe


def starting_checkpoint(recipe: Recipe, steps_per_epoch: int, links: Path) -> Path | None:
    """The folder to give verl for ``training.resume_from``, or None to start from the model.

    At the end of an epoch the saved place in the data is the end of the data: verl would train
    nothing for a whole epoch and then miss one. Without a saved place it begins the next epoch at
    its beginning, in the order of that epoch. So there it gets ``links``, a folder of links to
    everything else. Raises UsageError for a folder that is no complete checkpoint.
    """
    given = recipe.get("training.resume_from")
    if given is None:
        return None
    checkpoint = Path(given)
    step = saved_step(checkpoint)
    problem = step_problem(checkpoint, WantedFiles.by_config(recipe.values))
    if problem is not None:
        raise UsageError(f"training.resume_from={checkpoint}: incomplete, {problem}")
    if step % steps_per_epoch:
        return checkpoint
    print(f"step {step} ended an epoch: the next one begins at its first row", flush=True)
    return _without_place(checkpoint, links)


def saved_step(checkpoint: Path) -> int:
    """The step of a ``global_step_<n>`` folder. Raises UsageError for another name."""
    step = step_of(checkpoint)
    if step is None:
        raise UsageError(f"training.resume_from={checkpoint}: not a global_step_<n> folder")
    return step


def _without_place(checkpoint: Path, links: Path) -> Path:
    folder = links / checkpoint.name
    folder.mkdir(parents=True, exist_ok=True)
    for file in checkpoint.iterdir():
        link = folder / file.name
        if not file.match("data_*.pt") and not link.is_symlink():
            link.symlink_to(file.resolve())
    return folder
