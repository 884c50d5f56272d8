"""The step folders that verl writes below a checkpoint folder, judged by their files alone.

Clocks are not used: after a jump of the system time, the last complete checkpoint is still found.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from engine.base import files, jsonl
from engine.run.checkpoints.model_folder import missing_parts

TRACKER = "latest_checkpointed_iteration.txt"

_STEP_FOLDER = re.compile(r"global_step_(0|[1-9][0-9]{0,14})")
_SHARD = re.compile(r"(model|optim|extra_state)_world_size_([1-9][0-9]*)_rank_([0-9]+)\.pt")
_FSDP = "fsdp_config.json"
_MOST_RANKS = 100_000
_KINDS = {"model": "model", "optimizer": "optim", "extra": "extra_state"}
"""The shards that each of verl's ``save_contents`` makes every rank write."""


@dataclass(frozen=True)
class WantedFiles:
    """What verl writes into a step folder under a config. ``contents`` is ``save_contents``."""

    contents: frozenset[str] = frozenset(_KINDS)
    lora: bool = False
    critic: bool = False

    @classmethod
    def by_config(cls, values: Mapping[str, object]) -> WantedFiles:
        """``values`` are a config's effective values by dotted key, of GRPO or of SFT."""
        contents = values.get("actor_rollout_ref.actor.checkpoint.save_contents")
        ranks = (values.get(key) for key in ("actor_rollout_ref.model.lora_rank", "lora.r"))
        estimator = values.get("algorithm.adv_estimator")
        return cls(
            frozenset(map(str, contents)) if isinstance(contents, list | tuple) else cls.contents,
            lora=any(isinstance(rank, int) and rank > 0 for rank in ranks),
            critic=values.get("critic.enable") is True
            or (values.get("critic.enable") is None and estimator == "gae"),
        )

    @property
    def kinds(self) -> list[str]:
        return [kind for content, kind in _KINDS.items() if content in self.contents]

    def of(self, shards: Path, ranks: int) -> Iterator[Path]:
        """The files of one model, saved in shards by ``ranks`` processes."""
        for kind in self.kinds:
            yield from (shards / f"{kind}_world_size_{ranks}_rank_{r}.pt" for r in range(ranks))
        yield shards / _FSDP
        if self.lora and shards.name != "critic":
            yield shards / "lora_train_meta.json"


def tracked_step(folder: Path) -> int | None:
    """The step in the tracker, which verl writes after the step's folder is complete.

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
    """Return all step folders by step, complete or not, in order."""
    folders = {step: path for path in folder.glob("global_step_*") if (step := step_of(path))}
    return {step: folders[step] for step in sorted(folders) if folders[step].is_dir()}


def complete_steps(
    folder: Path, since: float = 0.0, wanted: WantedFiles = WantedFiles()
) -> dict[int, Path]:
    """Return the step folders that a run can resume from, in order.

    A folder later than the tracker's step is incomplete, even if no file is missing. verl opens
    the tracker only after it has written the folder: if the tracker is empty or torn, the files
    decide; without a tracker, no checkpoint was completed. ``since``, in Unix seconds, leaves out
    older folders.
    """
    last = tracked_step(folder)
    if last is None and not (folder / TRACKER).is_file():
        return {}
    return {
        step: path
        for step, path in written_steps(folder).items()
        if (last is None or step <= last)
        and step_problem(path, wanted) is None
        and path.stat().st_mtime >= since
    }


def step_problem(path: Path, wanted: WantedFiles = WantedFiles()) -> str | None:
    """What a step folder lacks, or None. Shards are in ``actor/`` (GRPO) or at its top (SFT)."""
    if not path.is_dir():
        return f"{TRACKER} names it but it does not exist"
    shards = path / "actor" if (path / "actor").is_dir() else path
    ranks = _world_size(shards)
    if ranks == 0 and wanted.kinds:
        return "actor/ holds no shards" if shards != path else "it contains no shards"
    files = list(wanted.of(shards, ranks))
    if shards != path:
        if wanted.critic:
            files += wanted.of(path / "critic", _world_size(path / "critic"))
        files.append(path / "data.pt")
    else:
        files += [path / f"data_{rank}.pt" for rank in range(ranks)]
    lacking = next((_lack(file, path) for file in files if not _whole(file)), None)
    return lacking or _model_problem(shards / "huggingface", path, wanted)


def _world_size(shards: Path) -> int:
    """How many ranks saved: as rank 0 recorded it, otherwise by the names of the shards."""
    written = jsonl.integer((jsonl.read_json(shards / _FSDP) or {}).get("world_size"))
    names = (match for file in shards.glob("*.pt") if (match := _SHARD.fullmatch(file.name)))
    if written is not None and 0 < written <= _MOST_RANKS:
        return written
    return max((int(match.group(2)) for match in names), default=0)


def _model_problem(model: Path, path: Path, wanted: WantedFiles) -> str | None:
    """verl saves the model's config and tokenizer with every step; its weights only on request."""
    lacking = missing_parts(model)
    if "hf_model" not in wanted.contents:
        lacking = [part for part in lacking if not part.startswith("weights")]
    if lacking:
        return f"{model.relative_to(path)} has no {' and no '.join(lacking)}"
    files = sorted(model.glob("*.json"))
    return next((_lack(file, path) for file in files if not _whole(file)), None)


def _lack(file: Path, path: Path) -> str:
    return f"{file.relative_to(path)} is {'cut short' if file.exists() else 'missing'}"


def _whole(file: Path) -> bool:
    """Whether a file has its end: the directory of torch's zip archive, or JSON's last bracket."""
    try:
        if file.suffix == ".json":
            with files.open_regular(file) as handle:
                handle.seek(max(0, file.stat().st_size - 64))
                return handle.read().rstrip().endswith((b"}", b"]"))
        with zipfile.ZipFile(file) as archive:
            return bool(archive.namelist())
    except (OSError, ValueError, zipfile.BadZipFile):
        return False
