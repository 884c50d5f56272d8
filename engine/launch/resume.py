"""Resume a run that ended early, as a new attempt with the same values and history."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from msgspec import structs

from engine.base import files, jsonl
from engine.base.errors import UsageError, shorten
from engine.base.typed import Words, to_json
from engine.checks.demands import EXPECT_DATA
from engine.config.executed import require_own_code
from engine.config.frozen import manifest_config, pinned_config
from engine.config.load import config_keys, load_config
from engine.launch.drift import describe_drift, select_drift, software_drift
from engine.launch.kept_data import find_copy, kept_overrides
from engine.launch.launcher import start_supervisor
from engine.launch.ray_target import chosen_cluster
from engine.reward.own.files import edited_code, executed_code
from engine.run.checkpoints.find import check_checkpoint, complete_checkpoints
from engine.run.checkpoints.model_folder import missing_parts
from engine.run.checkpoints.ownership import Stamp, checkpoint_folder, read_stamp, taken
from engine.run.checkpoints.step_folders import WantedFiles, complete_steps, step_of, written_steps
from engine.run.events import clear_requests, log_event
from engine.run.history.train_log import read_steps
from engine.run.host.surroundings import changed_files, changes, surroundings
from engine.run.kinds import read_kind
from engine.run.manifest import AttemptRecord, FullManifest, Surroundings, value_of
from engine.run.processes import members
from engine.run.run import Run, find_run
from engine.run.state import RunState, describe, readable_state, write_state
from engine.run.trust import require, vouch
from engine.supervise.finalize import finalize, hold_run
from engine.supervise.hosts import find_host


@dataclass(frozen=True)
class Resumed:
    """A started attempt: the step it resumes from (0: the beginning), and warnings."""

    step: int
    attempt: int
    warnings: tuple[str, ...]


_NAMED_CHECKPOINTS = 4
_LONGEST_LIST = 200
"""Characters of the keys that an error names."""

Source = tuple[Run, int | None]
"""A run, and the step of the checkpoint to resume from; None: its last complete one."""


def find_resumable(root: Path, run_or_checkpoint: str, from_step: int | None) -> Source:
    """The run below ``root`` by its ID or by one of its checkpoints, ``FOLDER/global_step_N``.

    UsageError for an unknown run, for a path that is no checkpoint, for a folder of checkpoints
    without the mark of its run, and for two different steps.
    """
    path = Path(run_or_checkpoint)
    step = step_of(path)
    if step is None or not path.is_dir():
        try:
            return find_run(root, run_or_checkpoint), from_step
        except UsageError:
            is_path = "/" in run_or_checkpoint or path.is_dir()
            if is_path and not Run(path).manifest_file.exists():
                raise _no_checkpoint(path) from None
            raise
    stamp = read_stamp(path.parent)
    if stamp is None:
        raise UsageError(
            f"{path.parent} does not name the run that saved it. Name the run: "
            f"grubrics-tui resume RUN --from {step}"
        )
    if from_step not in (None, step):
        raise UsageError(f"--from {from_step} and {path.name} are different steps. Give one")
    return find_run(root, stamp.run), step


def _no_checkpoint(path: Path) -> UsageError:
    """The error for a path that is neither a run nor a checkpoint, with the checkpoints there."""
    is_parent = path.is_dir() and step_of(path) is None
    present = written_steps(path if is_parent else path.parent)
    missing = "no such checkpoint" if step_of(path) is not None else "no such run or checkpoint"
    problem = f"{path} is no checkpoint" if path.exists() else f"{path}: {missing}"
    shown = [str(folder) for folder in present.values()][-_NAMED_CHECKPOINTS:]
    return UsageError(f"{problem}; give {' or '.join(shown) or 'RUN, or FOLDER/global_step_N'}")


def resume(run: Run, from_step: int | None = None) -> Resumed:
    """Start a new attempt from the last complete checkpoint, or that of ``from_step``.

    It trains with the values of the launch, even if the config file has changed since. A run whose
    trainer never started begins at step 0. The manifest gains an attempt and loses nothing.
    UsageError if the run is active or has processes left, if no step is left to do, and if there is
    no such checkpoint.
    """
    require(run, executes=True)
    with hold_run(run):
        finalize(run, noticed_by="resume")
        planned = _plan(run, from_step)
        manifest, attempt = planned.manifest, planned.attempt
        if manifest.ray:
            chosen_cluster(manifest.ray, load_config(str(run.config_file), env={}))
        _require_expected_data(run, manifest, attempt)
        try:
            files.write_atomic(run.config_file, pinned_config(manifest.config))
            moved = [jsonl.line(text) or "" for text in _moved_defaults(run, manifest)]
            warnings = (*planned.warnings, *moved)
            _begin(run, manifest, attempt, warnings, planned.state)
            vouch(run)
        except OSError as error:
            raise UsageError(f"{run.path}: {error.strerror}; nothing was resumed") from error
        start_supervisor(run)
        return Resumed(attempt.from_step or 0, attempt.number, warnings)


def resume_step(run: Run) -> int:
    """The step that ``resume`` would start from. UsageError where it would refuse."""
    require(run, executes=True)
    state = _require_ended(run)
    return starting_point(run, _complete_manifest(run), state, None)[0]


def resume_plan(run: Run, from_step: int | None = None) -> tuple[Resumed, Words]:
    """What ``resume`` would start, and its command. Nothing is written. UsageError where it would
    refuse. Only ``resume`` itself checks the defaults of the installed version and the cluster."""
    require(run, executes=True)
    planned = _plan(run, from_step)
    attempt = planned.attempt
    return Resumed(attempt.from_step or 0, attempt.number, planned.warnings), attempt.argv


@dataclass(frozen=True)
class _Plan:
    """An attempt as the manifest will have it, which nothing forbids."""

    state: RunState
    manifest: FullManifest
    attempt: AttemptRecord
    warnings: tuple[str, ...]


def _plan(run: Run, from_step: int | None) -> _Plan:
    state, manifest = _require_ended(run), _complete_manifest(run)
    # A config that cannot be loaded executes nothing; a missing one is checked when it is written.
    try:
        config = load_config(str(run.config_file), env={})
    except UsageError:
        pass
    else:
        require_own_code(config)
    step, checkpoint = starting_point(run, manifest, state, from_step)
    attempt = _next_attempt(run, manifest, step, checkpoint)
    warnings = [*_changed(run, manifest, attempt)]
    if step > _last_step(run):
        warnings.append(f"step {step} was saved but not logged: the history has a gap there")
    return _Plan(state, manifest, attempt, tuple(jsonl.line(text) or "" for text in warnings))


def _begin(
    run: Run,
    manifest: FullManifest,
    attempt: AttemptRecord,
    warnings: tuple[str, ...],
    before: RunState,
) -> None:
    number, step, changes_since = attempt.number, attempt.from_step, attempt.changes_since
    files.make_folder(run.attempt(number).path)
    # The file as it is: ``read_manifest`` drops damaged fields, and resuming must not.
    raw = jsonl.read_json(run.manifest_file) or to_json(manifest)
    attempts = [*raw["attempts"], to_json(attempt)]
    jsonl.write_json(run.manifest_file, {**raw, "attempts": attempts})
    clear_requests(run)
    log_event(run, "resume", attempt=number, from_step=step, changes=to_json(changes_since))
    if drift := select_drift(changes_since):
        log_event(run, "drift", since={"attempt": number - 1}, changes=to_json(drift))
    for warning in warnings:
        log_event(run, "warning", message=warning)
    write_state(
        run,
        RunState(
            "starting",
            attempt=number,
            step=step or None,
            heartbeat=time.time(),
            total_steps=manifest.total_steps,
            ran_before=before.elapsed(time.time()),
            began=before.first_start,
        ),
    )


def _complete_manifest(run: Run) -> FullManifest:
    manifest = run.read_full_manifest()
    if pipeline := manifest.pipeline:
        raise UsageError(
            f"run '{run.id}' is a pipeline. To continue it: "
            f"grubrics-tui pipeline {pipeline.file} --from STAGE"
        )
    if manifest.adopted is not None:
        run.require_config()
    if manifest.is_command:
        raise UsageError(
            f"run '{run.id}' executes a command: only its program can resume it. Start a new run "
            f"with the program's own option: grubrics-tui run --from {run.id} -- OPTION"
        )
    attempts = manifest.attempts
    if manifest.id not in (None, run.id):
        raise UsageError(
            f"{run.path}: the run was launched as '{manifest.id}', and its checkpoints and W&B "
            f"run have that name. To resume it, rename the folder to '{manifest.id}'"
        )
    if not attempts or manifest.cwd is None:
        raise UsageError(
            f"{run.manifest_file}: damaged manifest ('attempts' or 'cwd' is missing); "
            "the run cannot be resumed"
        )
    written = (jsonl.read_json(run.manifest_file) or {}).get("attempts", [])
    if len(attempts) != len(written) or not (attempts[0].argv and attempts[-1].argv):
        raise UsageError(f"{run.manifest_file}: an attempt has no number and argv")
    _require_whole_config(run, manifest)
    return manifest


def _require_whole_config(run: Run, manifest: FullManifest) -> None:
    """UsageError if the recorded config, from which ``recipe.yaml`` is written, lacks a value."""
    keys: set[str] = set()
    with suppress(UsageError):  # One that is missing or damaged is written again.
        keys = {*config_keys(str(run.config_file))[0]}
    missing = sorted(keys - manifest.config.keys())
    if manifest.config and not missing:
        return
    lost = shorten(", ".join(missing), _LONGEST_LIST)
    what = f"values are missing or damaged: {lost}" if manifest.config else "holds no config"
    file = run.settings_file if run.settings_file.exists() else run.manifest_file
    raise UsageError(
        f"{file}: {what}; the run cannot be resumed. Restore the file, or launch the run again: "
        f"grubrics-tui launch --from {run.id}"
    )


def _require_ended(run: Run) -> RunState:
    state = readable_state(run)
    if not state.has_ended:
        raise UsageError(
            f"run '{run.id}' is still active ({describe(state)}). Stop it first: "
            f"grubrics-tui stop {run.id}"
        )
    pids = [process.pid for process in members(run)]
    if pids:
        raise UsageError(
            f"run '{run.id}' still has processes ({pids}). Kill them first: grubrics-tui reap --yes"
        )
    if (complaint := find_host(run).left()) is not None:
        raise UsageError(f"run '{run.id}': {complaint}. Stop it: grubrics-tui stop {run.id}")
    return state


def _last_step(run: Run) -> int:
    return max((step.step for step in read_steps(run.train_log)), default=0)


def _next_attempt(
    run: Run, manifest: FullManifest, step: int, checkpoint: Path | None
) -> AttemptRecord:
    # The first attempt's surroundings are the manifest's own fields.
    recorded = manifest.attempts[-1].surroundings or manifest
    cwd = manifest.working_folder
    current = surroundings(
        cwd,
        Path(manifest.config_path or ""),
        map(Path, recorded.data),
        model=map(Path, recorded.model),
        reward_inputs=map(Path, recorded.reward_inputs),
        tools=map(Path, recorded.tools),
    )
    current = structs.replace(current, code=executed_code(run, manifest.code, cwd))
    # The command of the launch, with the present path of the run's config.
    config, words = str(run.config_file.absolute()), ["", *manifest.attempts[0].argv]
    argv = [
        config if before == "--config" and Path(word).name == run.config_file.name else word
        for before, word in pairwise(words)
    ]
    if checkpoint is not None:
        argv += read_kind(manifest.kind, "manifest.json").resume_overrides(checkpoint)
    argv += kept_overrides(run, manifest, changed_files(manifest.data, current.data))
    return AttemptRecord(
        number=manifest.attempts[-1].number + 1,
        started=time.time(),
        argv=tuple(argv),
        from_step=step,
        from_=None if checkpoint is None else str(checkpoint),
        changes_since=changes(recorded, current),
        surroundings=current,
    )


def _require_expected_data(run: Run, manifest: FullManifest, attempt: AttemptRecord) -> None:
    """UsageError if the run was launched for certain data, and these have changed."""
    now = attempt.surroundings or Surroundings()
    changed = [
        path
        for path in changed_files(manifest.data, now.data)
        if find_copy(run, path, manifest.data[path]) is None
    ]
    if changed and manifest.value(EXPECT_DATA):
        raise UsageError(
            f"run '{run.id}': {', '.join(changed)} changed since the launch, and {EXPECT_DATA} "
            "forbids other data. Restore the file, or launch a new run"
        )


_NEW_CONTENT = "the run uses its new content"
_READ_BY = {"reward_inputs": " (read by the reward)", "tools": " (tools)"}
_CONSEQUENCES = {
    "recipe_file": "the run keeps the values it was launched with (recipe.yaml in its folder)",
    "data": _NEW_CONTENT,
    "reward_inputs": _NEW_CONTENT,
    "tools": _NEW_CONTENT,
    "model": "the weights come from the checkpoint. The rest of the model, and the base of a LoRA "
    "adapter, come from the changed folder",
}
"""What a changed file means for the run, by the part of its surroundings."""


def _changed(run: Run, manifest: FullManifest, attempt: AttemptRecord) -> Iterator[str]:
    """Warnings about software that changed since the last attempt, and files since the launch."""
    now = attempt.surroundings or Surroundings()
    software = software_drift(attempt.changes_since)
    if line := describe_drift(f"attempt {attempt.number - 1}", software):
        yield line
    for part, consequence in _CONSEQUENCES.items():
        for path in changed_files(manifest.files(part), now.files(part)):
            copy = find_copy(run, path, manifest.data[path]) if part == "data" else None
            what = f"the run continues with the copy {copy}" if copy else consequence
            yield f"{path}{_READ_BY.get(part, '')} changed since the launch; {what}"
    cwd = manifest.working_folder
    for path in edited_code(manifest.code, cwd):
        is_there = (cwd / path).is_file()
        yield (
            f"{path} {'changed' if is_there else 'is gone'} since the launch; the run keeps the "
            "reward function it was launched with"
            + (f". To use the edit, copy it to {run.code}" if is_there else f" ({run.code})")
        )


def _moved_defaults(run: Run, manifest: FullManifest) -> Iterator[str]:
    """Warnings about values that were never set and follow the installed version.

    UsageError for a key that the version no longer has. A path that is implied is in the run's
    folder, which may have been moved.
    """
    config = load_config(str(run.config_file), env={})
    require_own_code(config)
    present = manifest_config(config, run.attempt(1).path.resolve())
    for key in sorted({*present, *manifest.config}):
        before, now = manifest.value(key), value_of(present, key)
        is_implied = key in present and present[key].origin == "implied"
        if is_implied and "/" in str(before) and Path(str(before)).name == Path(str(now)).name:
            continue
        if before != jsonl.finite(now):
            yield f"the default of {key} changed from {before!r} to {now!r} since the launch"


def starting_point(
    run: Run, manifest: FullManifest, state: RunState, from_step: int | None
) -> tuple[int, Path | None]:
    """The step to resume from and its folder; 0 and None for the beginning.

    ``from_step`` is the step that the user chose. UsageError if no step is left to do, or if there
    is no checkpoint to resume from.
    """
    total = manifest.total_steps
    last = _last_step(run)
    is_ended = from_step is None and state.state == "finished"
    # One that was stopped after its last step still writes its final model.
    if (
        is_ended
        and (state.went_well or not _lacks_final(run, manifest))
        and total is not None
        and last >= total
    ):
        raise _nothing_left(run, manifest, last, total)
    steps = _checkpoints(run, manifest)
    if from_step is not None:
        step = from_step
        if step not in steps:
            available = ", ".join(map(str, steps)) or "none"
            raise UsageError(
                f"{checkpoint_folder(manifest)}: no complete checkpoint of step {step}; "
                f"available: {available}{_missing_reason(run, manifest, step)}"
            )
    elif not _has_trained(run):
        return 0, None
    elif steps:
        # verl saves a step before it logs it: a gap in the history is left only where no earlier
        # checkpoint is.
        step = max((each for each in steps if each <= last), default=min(steps))
    else:
        raise UsageError(
            f"{checkpoint_folder(manifest)}: holds no complete checkpoint of run '{run.id}'. "
            f"Start again: grubrics-tui launch --from {run.id}"
        )
    if total is not None and step >= total and not _lacks_final(run, manifest):
        raise _nothing_left(run, manifest, step, total)
    return step, steps[step]


def _nothing_left(run: Run, manifest: FullManifest, step: int, total: int) -> UsageError:
    """The error, with the commands that do something in this state."""
    advice = []
    if _lacks_final(run, manifest) and (
        complete_checkpoints(run) or check_checkpoint(run).complete
    ):
        advice.append(f"To write its model: grubrics-tui export {run.id} FOLDER")
    with suppress(UsageError):
        if earlier := [step for step in _checkpoints(run, manifest) if step < total]:
            advice.append(f"To repeat steps: grubrics-tui resume {run.id} --from {earlier[-1]}")
    again = f"To train it again: grubrics-tui launch --from {run.id}"
    return UsageError(
        f"run '{run.id}' already finished (step {step} of {total}). {'. '.join(advice or [again])}"
    )


def _lacks_final(run: Run, manifest: FullManifest) -> bool:
    """Whether the final model is missing, which a run writes after its last step."""
    if read_kind(manifest.kind, run.manifest_file).has_final_model:
        return not check_checkpoint(run).complete
    values, folder = manifest.values, checkpoint_folder(manifest)
    # The trainer knows the last step from its config alone.
    is_wanted = values.get("grubrics.final_model") and values.get("trainer.total_training_steps")
    if not is_wanted or folder is None:
        return False
    stamp = read_stamp(folder / "final")
    is_mine = stamp is not None and stamp.same_run(Stamp.of(run, manifest))
    return not is_mine or bool(missing_parts(folder / "final"))


def _has_trained(run: Run) -> bool:
    """Whether a trainer was ever started: its console log is opened before that."""
    return any(attempt.console.exists() for attempt in run.attempts()) or any(
        True for _ in read_steps(run.train_log)
    )


def _checkpoints(run: Run, manifest: FullManifest) -> dict[int, Path]:
    """The complete steps of this run. Without an ownership file, their time decides."""
    folder = checkpoint_folder(manifest)
    if folder is None:
        raise UsageError(f"{run.manifest_file}: does not name a checkpoint folder")
    owner, wanted = read_stamp(folder), WantedFiles.by_config(manifest.values)
    if "model" not in wanted.contents:
        raise UsageError(
            f"{folder}: its checkpoints have no model shards, which verl needs to resume; "
            f"actor_rollout_ref.actor.checkpoint.save_contents={sorted(wanted.contents)}"
        )
    if owner is None:
        return complete_steps(folder, manifest.created or 0.0, wanted)
    if not owner.same_run(Stamp.of(run, manifest)):
        if not _has_trained(run):
            return {}
        raise UsageError(taken(folder, Stamp.of(run, manifest), owner))
    return complete_steps(folder, wanted=wanted)


def _missing_reason(run: Run, manifest: FullManifest, step: int) -> str:
    """Why a step has no checkpoint: never saved, or saved and removed since."""
    key, values = read_kind(manifest.kind, run.manifest_file).save_every_key, manifest.values
    interval, limit = values.get(key or ""), values.get("trainer.max_actor_ckpt_to_keep")
    if step > (last := _last_step(run)):
        return f" (the run reached step {last})"
    if not isinstance(interval, int) or interval < 1:
        return ""
    if step % interval and step != manifest.total_steps:
        return f" (step {step} was never saved: {key}={interval})"
    if isinstance(limit, int) and limit > 0:
        return f" (step {step} was saved, then removed: trainer.max_actor_ckpt_to_keep={limit})"
    return f" (step {step} was saved, but its folder is missing or damaged)"
