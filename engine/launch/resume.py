"""Going on with a run that ended early, as a new attempt with the same values and history."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from engine.base import files, jsonl
from engine.base.errors import UsageError
from engine.checkpoints.find import check_checkpoint
from engine.checkpoints.ownership import Stamp, checkpoint_folder, read_stamp, taken
from engine.checkpoints.step_folders import WantedFiles, complete_steps
from engine.history.train_log import read_steps
from engine.host.surroundings import changed_files, changes, surroundings
from engine.launch.launcher import start_supervisor
from engine.launch.ray_target import chosen_cluster, recipe_to_resume
from engine.own_reward.code_fingerprints import edited_code, executed_code
from engine.recipe.executed import require_own_code
from engine.recipe.frozen import config_of, pinned_recipe
from engine.recipe.recipe import load_recipe
from engine.runs.events import clear_requests, log_event
from engine.runs.kinds import read_kind
from engine.runs.manifest import values_of
from engine.runs.processes import members
from engine.runs.rundir import RunDir
from engine.runs.state import RunState, describe, settled_state, with_first_start, write_state
from engine.runs.trust import require, vouch
from engine.supervise.ray_jobs import left_on_cluster
from engine.supervise.settle_lost import hold_run, settle


@dataclass(frozen=True)
class Resumed:
    """A started attempt: the step it goes on from, 0 for the beginning, and what to know of it."""

    step: int
    attempt: int
    warnings: tuple[str, ...]


def resume(run: RunDir, from_step: int | None = None) -> Resumed:
    """Start a new attempt from the last complete checkpoint, or that of ``from_step``.

    It trains what the run was launched with, whatever happened to the recipe file since. A run
    that never got to train starts from the beginning. The manifest gains an attempt and loses
    nothing. UsageError while the run goes on or has processes left, when it has nothing left to
    do, and when there is no such checkpoint.
    """
    require(run, executes=True)
    with hold_run(run):
        settle(run, noticed_by="resume")
        return _resume(run, from_step)


def _resume(run: RunDir, from_step: int | None) -> Resumed:
    state, manifest = _require_ended(run), _whole_manifest(run)
    _require_own_code(run)
    if manifest.get("ray"):
        chosen_cluster(manifest["ray"], recipe_to_resume(run))
    step, checkpoint = starting_point(run, manifest, state, from_step)
    attempt = _next_attempt(run, manifest, step, checkpoint)
    try:
        found = (*_warnings(run, manifest, attempt), *_gap(run, step))
        warnings = tuple(jsonl.line(warning) or "" for warning in found)
        _begin(run, manifest, attempt, warnings, with_first_start(state, manifest))
        vouch(run)
    except OSError as error:
        raise UsageError(f"{run.path}: {error.strerror}; nothing was resumed") from error
    start_supervisor(run)
    return Resumed(step, attempt["number"], warnings)


def _begin(
    run: RunDir,
    manifest: dict[str, Any],
    attempt: dict[str, Any],
    warnings: tuple[str, ...],
    before: RunState,
) -> None:
    number, step = attempt["number"], attempt["from_step"]
    files.make_folder(run.attempt(number).path)
    # As it was written: reading drops what is damaged, and resuming must not.
    whole = jsonl.read_json(run.manifest) or manifest
    jsonl.write_json(run.manifest, {**whole, "attempts": [*whole["attempts"], attempt]})
    clear_requests(run)
    log_event(run, "resume", attempt=number, from_step=step, changes=attempt["changes_since"])
    for warning in warnings:
        log_event(run, "warning", message=warning)
    write_state(
        run,
        RunState(
            "starting",
            attempt=number,
            step=step or None,
            heartbeat=time.time(),
            total_steps=manifest.get("total_steps"),
            ran_before=before.elapsed(time.time()),
            began=before.first_start,
        ),
    )


def _whole_manifest(run: RunDir) -> dict[str, Any]:
    manifest = run.read_manifest()
    attempts = manifest.get("attempts")
    if manifest.get("id") not in (None, run.id):
        raise UsageError(
            f"{run.path}: was launched as run '{manifest['id']}', and its checkpoints and W&B run "
            f"have that name; rename the folder back to '{manifest['id']}' to resume it"
        )
    if not attempts or "cwd" not in manifest:
        raise UsageError(
            f"{run.manifest}: damaged manifest ('attempts' or 'cwd' is missing); "
            "the run cannot be resumed"
        )
    written = (jsonl.read_json(run.manifest) or {}).get("attempts", [])
    if len(attempts) != len(written) or not all("argv" in a for a in (attempts[0], attempts[-1])):
        raise UsageError(f"{run.manifest}: an attempt has no number and argv")
    return manifest


def resume_step(run: RunDir) -> int:
    """The step that ``resume`` would go on from. UsageError where it would refuse."""
    require(run, executes=True)
    state = _require_ended(run)
    return starting_point(run, _whole_manifest(run), state, None)[0]


def resume_plan(run: RunDir, from_step: int | None = None) -> tuple[Resumed, list[str]]:
    """What ``resume`` would start, and its command. Nothing is written. UsageError where it would
    refuse; what only its own look at the defaults and at a cluster finds is not known before."""
    require(run, executes=True)
    state, manifest = _require_ended(run), _whole_manifest(run)
    _require_own_code(run)
    step, checkpoint = starting_point(run, manifest, state, from_step)
    attempt = _next_attempt(run, manifest, step, checkpoint)
    found = (*_changed(run, manifest, attempt["surroundings"]), *_gap(run, step))
    warnings = tuple(jsonl.line(warning) or "" for warning in found)
    return Resumed(step, attempt["number"], warnings), attempt["argv"]


def _require_own_code(run: RunDir) -> None:
    """Of what lies outside of the run. Nothing is executed of a recipe that cannot be loaded, and
    one that is missing is looked at once it is written."""
    try:
        recipe = load_recipe(str(run.recipe), env={})
    except UsageError:
        return
    require_own_code(recipe)


def _require_ended(run: RunDir) -> RunState:
    state = settled_state(run)
    if not state.has_ended:
        raise UsageError(
            f"run '{run.id}' is still active ({describe(state)}). Stop it first: "
            f"grubrics-tui stop {run.id}"
        )
    left = [process.pid for process in members(run)]
    if left:
        raise UsageError(
            f"run '{run.id}' still has processes ({left}). Kill them first: grubrics-tui reap --yes"
        )
    elsewhere = left_on_cluster(run)
    if elsewhere is not None:
        raise UsageError(f"run '{run.id}': {elsewhere}; grubrics-tui stop {run.id} ends it")
    return state


def _gap(run: RunDir, step: int) -> Iterator[str]:
    if step > max((one.step for one in read_steps(run.train_log)), default=0):
        yield f"step {step} was saved but not logged: the history has a gap there"


def _next_attempt(
    run: RunDir, manifest: dict[str, Any], step: int, checkpoint: Path | None
) -> dict[str, Any]:
    before = _surroundings_before(manifest)
    cwd = Path(manifest["cwd"])
    after = surroundings(
        cwd,
        Path(manifest.get("config_path") or ""),
        [Path(name) for name in before.get("data", {})],
        model=[Path(name) for name in before.get("model", {})],
        reward_inputs=[Path(name) for name in before.get("reward_inputs", {})],
    )
    if "code" in manifest:
        after["code"] = executed_code(run, manifest["code"], cwd)
    return {
        "number": manifest["attempts"][-1]["number"] + 1,
        "started": time.time(),
        "argv": [*_first_command(run, manifest), *_overrides(manifest, checkpoint)],
        "from_step": step,
        "from": None if checkpoint is None else str(checkpoint),
        "changes_since": changes(before, after),
        "surroundings": after,
    }


def _first_command(run: RunDir, manifest: dict[str, Any]) -> list[str]:
    """As it was launched; the recipe lies in the run's folder, wherever that was moved since."""
    argv = manifest["attempts"][0]["argv"]
    kept = str(run.recipe.absolute())
    return [
        kept if before == "--config" and Path(word).name == run.recipe.name else word
        for before, word in pairwise(["", *argv])
    ]


def _overrides(manifest: dict[str, Any], checkpoint: Path | None) -> list[str]:
    if checkpoint is None:
        return []
    return read_kind(manifest, "manifest.json").resume_overrides(checkpoint)


def _surroundings_before(manifest: dict[str, Any]) -> dict[str, Any]:
    """Of the attempt before; the first one's are the manifest's own."""
    found: dict[str, Any] = manifest["attempts"][-1].get("surroundings") or manifest
    return found


def _warnings(run: RunDir, manifest: dict[str, Any], attempt: dict[str, Any]) -> Iterator[str]:
    """What a person may not expect of this attempt. Writes the recipe that it will read."""
    yield from _changed(run, manifest, attempt["surroundings"])
    if manifest.get("config"):
        files.write_atomic(run.recipe, pinned_recipe(manifest["config"]))
        yield from _moved_defaults(run, manifest)


def _changed(run: RunDir, manifest: dict[str, Any], now: dict[str, Any]) -> Iterator[str]:
    """The files that are not what they were at the launch."""
    for path in changed_files(manifest, now, "recipe_file"):
        yield (
            f"{path} changed since the launch; the run keeps the values it was launched with "
            f"({run.recipe})"
        )
    for path in changed_files(manifest, now, "data"):
        yield f"{path} changed since the launch; the run uses its new content"
    for path in changed_files(manifest, now, "reward_inputs"):
        yield f"{path}, which the reward reads, changed since the launch; its new content is read"
    for path in changed_files(manifest, now, "model"):
        yield (
            f"{path} changed since the launch; the weights come from the checkpoint, all else of "
            "the model, and the base of a LoRA adapter, from the changed folder"
        )
    cwd = Path(manifest["cwd"])
    for path in edited_code(manifest.get("code") or {}, cwd):
        is_there = (cwd / path).is_file()
        yield (
            f"{path} {'changed' if is_there else 'is gone'} since the launch; the run keeps the "
            "reward function it was launched with"
            + (f"; copy it to {run.code} to take the edit" if is_there else f" ({run.code})")
        )


def _moved_defaults(run: RunDir, manifest: dict[str, Any]) -> Iterator[str]:
    """Values that were never set follow the installed version. UsageError for a key it lost.

    A value that is implied now and was recorded as verl's default is no news: earlier versions
    recorded so.
    """
    recipe, config = load_recipe(str(run.recipe), env={}), manifest["config"]
    require_own_code(recipe)
    now_in_force = config_of(recipe, run.attempt(1).path.resolve())
    for key in sorted({*now_in_force, *config}):
        entry = config.get(key, {})
        is_implied = now_in_force.get(key, {}).get("origin") == "implied"
        before, now = entry.get("value"), now_in_force.get(key, {}).get("value")
        if is_implied and (entry.get("origin") != "implied" or _moved(before, now)):
            continue
        if before != jsonl.finite(now):
            yield f"the default of {key} changed from {before!r} to {now!r} since the launch"


def _moved(before: Any, now: Any) -> bool:
    """Whether both are the same place in the run's folder, which may be elsewhere since."""
    paths = isinstance(before, str) and isinstance(now, str) and "/" in before
    return paths and Path(before).name == Path(now).name


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
    return UsageError(
        f"run '{run.id}' already finished (step {step} of {total}). "
        f"To repeat steps: grubrics-tui resume {run.id} --from STEP"
    )


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
