"""The step folders that verl writes below a checkpoint folder, judged by their files alone.

No clock is read here: a machine whose time jumped still finds its last whole checkpoint.
"""

from __future__ import annotations

import re
import zipfile
from pathlib import Path

from engine import files

TRACKER = "latest_checkpointed_iteration.txt"

_STEP_FOLDER = re.compile(r"global_step_(0|[1-9][0-9]{0,14})")
_SHARD = re.compile(r"(model|optim|extra_state)_world_size_([1-9][0-9]*)_rank_([0-9]+)\.pt")


def tracked_step(folder: Path) -> int | None:
    """The step that verl wrote last of all, once its folder was complete.

    None when the tracker is missing, empty or torn.
    """
    try:
        text = files.read_regular(folder / TRACKER, 100).decode("ascii").strip()
    except (OSError, ValueError):
        return None
    return int(text) if re.fullmatch(r"[0-9]{1,15}", text) else None


def step_of(path: Path) -> int | None:
    """The step of a ``global_step_<n>`` folder, by its name."""
    match = _STEP_FOLDER.fullmatch(path.name)
    return int(match.group(1)) if match else None


def written_steps(folder: Path) -> dict[int, Path]:
    """Every step folder by its step, whole or not, in order."""
    found = {step: path for path in folder.glob("global_step_*") if (step := step_of(path))}
    return {step: found[step] for step in sorted(found) if found[step].is_dir()}


def complete_steps(folder: Path, since: float = 0.0) -> dict[int, Path]:
    """The step folders that can be gone on from, in order.

    A folder later than the tracker's step is half written, whatever it holds. verl opens the
    tracker only once the folder is written, so an empty or torn one leaves the verdict to the
    files; without any, nothing was ever completed. ``since``, in Unix seconds, leaves out older
    folders.
    """
    last = tracked_step(folder)
    if last is None and not (folder / TRACKER).is_file():
        return {}
    return {
        step: path
        for step, path in written_steps(folder).items()
        if (last is None or step <= last)
        and step_problem(path) is None
        and path.stat().st_mtime >= since
    }


def step_problem(path: Path) -> str | None:
    """What a step folder of verl lacks, or None: GRPO keeps the shards in ``actor/``, SFT in it."""
    if not path.is_dir():
        return f"{TRACKER} names it but it does not exist"
    shards = path / "actor" if (path / "actor").is_dir() else path
    names = [match for file in shards.glob("*.pt") if (match := _SHARD.fullmatch(file.name))]
    ranks = max((int(match.group(2)) for match in names), default=0)
    if ranks == 0:
        return "actor/ holds no shards" if shards != path else "it holds no shards"
    kinds = sorted({match.group(1) for match in names})
    wanted = [shards / f"{k}_world_size_{ranks}_rank_{r}.pt" for k in kinds for r in range(ranks)]
    if shards != path:
        wanted.append(path / "data.pt")
    else:
        wanted += [path / f"data_{rank}.pt" for rank in range(ranks)]
    return next((_lack(file, path) for file in wanted if not _whole(file)), None)


def _lack(file: Path, path: Path) -> str:
    return f"{file.relative_to(path)} is {'cut short' if file.exists() else 'missing'}"


def _whole(file: Path) -> bool:
    """torch saves a zip archive, whose directory comes last."""
    try:
        return zipfile.is_zipfile(file)
    except OSError:
        return False
