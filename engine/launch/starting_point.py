"""Where a run that ended goes on: at its last complete checkpoint, or at the beginning."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from engine.base.errors import UsageError
from engine.checkpoints.find import check_checkpoint
from engine.checkpoints.ownership import Stamp, checkpoint_folder, read_stamp, taken
from engine.checkpoints.step_folders import WantedFiles, complete_steps
from engine.history.train_log import read_steps
from engine.runs.kinds import read_kind
from engine.runs.manifest import values_of
from engine.runs.rundir import RunDir
from engine.runs.state import RunState


def starting_point(
    run: RunDir, manifest: dict[str, Any], state: RunState, asked: int | None
) -> tuple[int, Path | None]:
    """The step to go on from and its folder; 0 and None is the beginning.

    ``asked`` is the step a person chose. UsageError when nothing is left to do or to go on from.
    """
    total = manifest.get("total_steps")
    last = max((step.step for step in read_steps(run.train_log)), default=0)
    if asked is None and state.state == "finished" and total is not None and last >= total:
        raise _nothing_left(run, last, total)
    steps = _checkpoints(run, manifest)
    if asked is not None:
        step = asked
        _require_step(run, manifest, step, steps)
    elif steps and _has_trained(run):
        step = _last_logged(last, steps)
    elif _has_trained(run):
        raise UsageError(
            f"{checkpoint_folder(manifest)}: holds no complete checkpoint of run '{run.id}'; "
            f"start again: grubrics-tui launch {manifest.get('recipe')}"
        )
    else:
        return 0, None
    if total is not None and step >= total and not _lacks_final(run, manifest):
        raise _nothing_left(run, step, total)
    return step, steps[step]


def _nothing_left(run: RunDir, step: int, total: int) -> UsageError:
    return UsageError(f"run '{run.id}' finished at step {step} of {total}; nothing left to do")


def _lacks_final(run: RunDir, manifest: dict[str, Any]) -> bool:
    """SFT ends with writing ``final/``, after its last step."""
    kind = read_kind(manifest, run.manifest)
    return kind.has_final_model and not check_checkpoint(run).complete


def _has_trained(run: RunDir) -> bool:
    """Whether a trainer was ever started: its console is opened before it is."""
    return any(attempt.console.exists() for attempt in run.attempts()) or any(
        True for _ in read_steps(run.train_log)
    )


def _checkpoints(run: RunDir, manifest: dict[str, Any]) -> dict[int, Path]:
    """The complete steps of this run. Without a stamp, only the clock tells whose they are."""
    folder = checkpoint_folder(manifest)
    if folder is None:
        raise UsageError(f"{run.manifest}: names no checkpoint folder")
    owner, wanted = read_stamp(folder), WantedFiles.by_config(values_of(manifest))
    if "model" not in wanted.contents:
        raise UsageError(
            f"{folder}: its steps hold no model shards, from which verl resumes; "
            f"actor_rollout_ref.actor.checkpoint.save_contents={sorted(wanted.contents)}"
        )
    if owner is None:
        return complete_steps(folder, manifest.get("created") or 0.0, wanted)
    if not owner.same_run(Stamp.of(run, manifest)):
        if not _has_trained(run):
            return {}
        raise UsageError(taken(folder, Stamp.of(run, manifest), owner))
    return complete_steps(folder, wanted=wanted)


def _last_logged(last: int, steps: dict[int, Path]) -> int:
    """The newest checkpoint whose step is in the history.

    verl saves a step before it logs it: going on from a step that was saved but not logged would
    leave a gap, which is only taken when there is no earlier checkpoint.
    """
    return max((step for step in steps if step <= last), default=min(steps))


def _require_step(run: RunDir, manifest: dict[str, Any], step: int, steps: dict[int, Path]) -> None:
    if step not in steps:
        known = ", ".join(str(number) for number in steps) or "none"
        folder = checkpoint_folder(manifest)
        why = _why_missing(run, manifest, step)
        raise UsageError(f"{folder}: no complete checkpoint of step {step}; there are {known}{why}")


def _why_missing(run: RunDir, manifest: dict[str, Any], step: int) -> str:
    """Whether a step was saved and removed since, or was none of those that are saved."""

    def value(key: str) -> Any:
        return manifest.get("config", {}).get(key, {}).get("value")

    key = read_kind(manifest, run.manifest).save_every_key
    every, kept = value(key) if key else None, value("trainer.max_actor_ckpt_to_keep")
    last = max((one.step for one in read_steps(run.train_log)), default=0)
    if step > last:
        return f" (the run got to step {last})"
    if not isinstance(every, int) or every < 1:
        return ""
    if step % every and step != manifest.get("total_steps"):
        return f" (step {step} was never saved: {key}={every})"
    if isinstance(kept, int) and kept > 0:
        return f" (step {step} was saved, then removed: trainer.max_actor_ckpt_to_keep={kept})"
    return f" (step {step} was saved, and its folder is gone or damaged)"
