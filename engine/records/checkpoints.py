"""Whether a run left a checkpoint that can be used. A half-written folder is never one."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.records.model_folder import missing_parts
from engine.runs.rundir import RunDir
from engine.runs.state import RunState, recorded_state

TRACKER = "latest_checkpointed_iteration.txt"

# File systems and the supervisor read different clocks.
_CLOCK_SLACK_S = 5.0

_STEP_FOLDER = re.compile(r"global_step_(\d+)")
_SHARD = re.compile(r"(model|optim|extra_state)_world_size_(\d+)_rank_(\d+)\.pt")


@dataclass(frozen=True)
class CheckpointReport:
    """``path`` is the newest complete checkpoint of the run, or None; ``message`` is one line."""

    complete: bool
    message: str
    path: Path | None = None
    step: int | None = None
    size_bytes: int = 0


def check_checkpoint(run: RunDir) -> CheckpointReport:
    """Look for what the run should have saved, by the paths in its manifest."""
    manifest = run.read_manifest()
    if not manifest:
        return CheckpointReport(False, f"{run.manifest}: missing or unreadable")
    folder = _folder(manifest)
    if folder is None:
        return CheckpointReport(False, f"{run.manifest}: names no checkpoint directory")
    if manifest.get("kind") == "sft":
        report, mark = _final_model(folder / "final", _created(manifest)), folder / "final"
    else:
        report, mark = _newest_step(folder, _created(manifest)), folder / TRACKER
    ended = (recorded_state(run) or RunState("lost")).ended
    if report.complete and ended is not None and mark.stat().st_mtime > ended + _CLOCK_SLACK_S:
        return CheckpointReport(False, f"{folder}: overwritten by a later run")
    return report


def tracked_step(folder: Path) -> int | None:
    """The step verl would resume from: it writes the tracker last, once the step is complete."""
    try:
        return int((folder / TRACKER).read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None


def complete_steps(folder: Path, since: float = 0.0) -> dict[int, Path]:
    """The step folders of verl below ``folder`` that are whole and not older than ``since``.

    A folder later than the tracker's step is half written, whatever it holds.
    """
    last = tracked_step(folder)
    written = [] if last is None else [step for step in _written_steps(folder) if step <= last]
    paths = {step: folder / f"global_step_{step}" for step in written}
    return {
        step: path
        for step, path in paths.items()
        if path.stat().st_mtime >= since and _step_problem(path) is None
    }


def size_bytes(folder: Path) -> int:
    """Bytes of all files below ``folder``."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _folder(manifest: dict[str, Any]) -> Path | None:
    key = "training.output_dir" if manifest.get("kind") == "sft" else "trainer.default_local_dir"
    entry = (manifest.get("config") or {}).get(key)
    value = entry.get("value") if isinstance(entry, dict) else None
    if not value:
        return None
    return Path(manifest.get("cwd") or ".") / Path(str(value)).expanduser()


def _created(manifest: dict[str, Any]) -> float:
    created = manifest.get("created")
    return float(created) if isinstance(created, int | float) else 0.0


def _newest_step(folder: Path, created: float) -> CheckpointReport:
    written = _written_steps(folder)
    step = tracked_step(folder)
    if step is None:
        return CheckpointReport(False, _no_tracker(folder, written))
    path = folder / f"global_step_{step}"
    if (folder / TRACKER).stat().st_mtime < created:
        return CheckpointReport(False, f"none from this run: {path} is older than its start")
    problem = _step_problem(path)
    if problem is not None:
        return CheckpointReport(False, f"{path}: incomplete, {problem}")
    later = [number for number in written if number > step]
    note = f"; global_step_{max(later)} is only half written and not used" if later else ""
    return CheckpointReport(True, f"{path}: complete{note}", path, step, size_bytes(path))


def _no_tracker(folder: Path, written: list[int]) -> str:
    if not written:
        return f"{folder}: no checkpoint was written"
    return f"{folder}/global_step_{max(written)}: incomplete, {TRACKER} was not written"


def _written_steps(folder: Path) -> list[int]:
    matches = [_STEP_FOLDER.fullmatch(path.name) for path in folder.glob("global_step_*")]
    return [int(match.group(1)) for match in matches if match is not None]


def _step_problem(path: Path) -> str | None:
    """What a step folder of verl lacks, or None."""
    if not path.is_dir():
        return f"{TRACKER} names it but it does not exist"
    actor = path / "actor"
    shards = [_SHARD.fullmatch(file.name) for file in actor.glob("*.pt") if file.stat().st_size]
    found = {match.group(0) for match in shards if match is not None}
    ranks = max((int(match.group(2)) for match in shards if match is not None), default=0)
    if ranks == 0:
        return "actor/ holds no shards"
    kinds = {name.split("_world_size_")[0] for name in found}
    wanted = {f"{k}_world_size_{ranks}_rank_{rank}.pt" for k in kinds for rank in range(ranks)}
    lacking = sorted(wanted - found)
    if lacking:
        return f"actor/{lacking[0]} is missing"
    return None if (path / "data.pt").is_file() else "data.pt is missing"


def _final_model(path: Path, created: float) -> CheckpointReport:
    if not path.is_dir():
        return CheckpointReport(False, f"{path}: not written; it appears when training ends")
    lacking = missing_parts(path)
    if lacking:
        return CheckpointReport(False, f"{path}: incomplete, it has no {' and no '.join(lacking)}")
    if (path / "config.json").stat().st_mtime < created:
        return CheckpointReport(False, f"none from this run: {path} is older than its start")
    return CheckpointReport(True, f"{path}: complete", path, None, size_bytes(path))
