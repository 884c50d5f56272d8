"""Check that the starting model exists, and what checkpoints in the run's folder mean for it."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path

from engine.base import jsonl
from engine.base.errors import UsageError, nearest
from engine.base.masking import mask_url
from engine.base.quantities import format_count
from engine.checks.check import Check, Subject, fail, summary, warn
from engine.config import hub
from engine.config.config_files import config_names
from engine.config.frozen import (
    code_hashes,
    training_data_hashes,
    training_fingerprint,
    training_values,
)
from engine.config.load import Config, load_config
from engine.config.places import (
    MAKE_TINY_WORLD,
    TINY_WORLD,
    checkpoint_dir,
    is_hub_name,
    local_folder,
    model_name,
)
from engine.config.scoring import asks_judge
from engine.config.secrets import VARIABLES
from engine.config.steps import step_plan
from engine.reward.own.files import code_values, data_values, tool_values
from engine.run.checkpoints.model_folder import missing_parts
from engine.run.checkpoints.ownership import (
    STAMP,
    Stamp,
    asked_step,
    holds_checkpoints,
    objection,
    read_stamp,
)
from engine.run.checkpoints.step_folders import WantedFiles, complete_steps, written_steps
from engine.run.columns import RunRow
from engine.run.kinds import KINDS, SFT
from engine.run.registry import list_runs
from engine.run.run import Run
from engine.run.state import observed_state
from engine.run.trust import is_neighbor

ID = "checkpoint"
_MODEL_KEYS = tuple(kind.model_key for kind in KINDS.values())
_MAX_DIFFERENCES = 3


def check(subject: Subject) -> Check:
    """Check the files of the model, and whether the checkpoint folder is free."""
    config = subject.config
    problems = [*_model(subject), *_separate_caches(subject), *_overwritten_models(subject)]
    problems += [*_checkpoints_of_others(subject)] or _existing_checkpoints(config)
    name = model_name(config)
    folder = local_folder(name, subject.env)
    if folder is not None and not missing_parts(folder):
        model = f"{name} is complete"
    else:
        model = f"{name} will be downloaded from {mask_url(hub.endpoint(subject.env))}"
    resume_path = config.get(config.kind.resume_key)
    if resume_path and (config.kind == SFT or config.get("trainer.resume_mode") == "resume_path"):
        return summary(ID, problems, f"{model}; resumes from {resume_path}")
    return summary(ID, problems, f"{model}; starts from step 0")


def _model(subject: Subject) -> Iterator[Check]:
    config, name = subject.config, model_name(subject.config)
    setting = f"{config.path}: {config.kind.model_key}={name}"
    folder, path = local_folder(name, subject.env), Path(name).expanduser()
    missing = missing_parts(folder) if folder is not None else []
    if folder is not None and not (is_hub_name(name) and missing):
        if missing:
            is_sharded = (folder / "actor").is_dir() or list(folder.glob("model_world_size_*"))
            hint = " (a training checkpoint of verl is shards; merge it with verl.model_merger)"
            problem = f"{setting} has no {' and no '.join(missing)}{hint if is_sharded else ''}"
            yield fail(ID, problem, _training_command(folder, config))
    elif (writer := _find_writer(subject, path)) is not None:
        yield warn(ID, f"{setting} does not exist yet; run '{writer}' will write it")
    elif not is_hub_name(name):
        problem = f"{setting} does not exist{_similar_folder(path)}"
        yield fail(ID, problem, _training_command(Path(name), config))
    elif (variable := hub.is_offline(subject.env)) is not None:
        problem = f"is not in the hub's cache{' with ' if missing else ''}{' and '.join(missing)}"
        problem += f", and {variable} disables downloads{_similar_folder(path)}"
        yield fail(ID, f"{setting} {problem}")
    else:
        yield from _hub_model(subject, setting, name)


def _similar_folder(path: Path) -> str:
    """Suggest the model folder of this disk whose path is spelled most like this one."""
    found = Path(path.anchor)
    for part in path.relative_to(path.anchor).parts:
        if (found / part).is_dir():
            found /= part
            continue
        folders = [other for other in found.glob("*") if other.is_dir()]
        models = [other for other in folders if (other / "config.json").is_file()]
        is_last = part == path.name
        close = nearest(part, [other.name for other in (is_last and models) or folders])
        if close is None:
            return ""
        found /= close
    return f"; did you mean {found}?"


def _hub_model(subject: Subject, setting: str, name: str) -> Iterator[Check]:
    """Check that the hub has the model and gives it to this user."""
    response = hub.ask(name, subject.env)
    if response.state == "there":
        return
    host, key = mask_url(hub.endpoint(subject.env)), subject.config.kind.model_key
    if response.state in ("empty", "no_revision"):
        message, fix = f"has no config.json on {host}", "choose a model in the transformers format"
    else:
        message, fix = hub.explain(response, name, "model", subject.env)
    if response.state == "unreachable":
        folder = f"models/{Path(name).name}"
        download = f"grubrics-tui model fetch {name} --to {folder}, then {key}={folder}"
        fix = f"on a machine with network access: {download}"
    if response.state == "missing":
        message += _similar_folder(Path(name))
    # The nodes of a cluster may have the network, the token and the cache that this host lacks.
    may_work = response.state == "busy" or (subject.uses_cluster and response.state != "exposed")
    yield (warn if may_work else fail)(ID, f"{setting} {message}", fix)


def _separate_caches(subject: Subject) -> Iterator[Check]:
    """Several nodes, or ranks before the first download, need one copy of a hub model."""
    config, name = subject.config, model_name(subject.config)
    if not is_hub_name(name):
        return
    nodes, ranks = int(config.get("trainer.nnodes") or 1), int(config.get(config.kind.gpus_key))
    folder = local_folder(name, subject.env)
    if nodes > 1 and not any(config.get(f"{VARIABLES}{cache}") for cache in hub.CACHE_VARIABLES):
        shared = f"grubrics-tui model fetch {name} --to FOLDER (on a file system of all nodes)"
        message = f"each of {nodes} nodes has {name} in a hub cache of its own, or downloads it"
        yield warn(ID, message, f"{shared}, or {VARIABLES}HF_HOME=FOLDER")
    elif nodes == 1 and ranks > 1 and (folder is None or missing_parts(folder)):
        message = f"each of {ranks} ranks starts to download {name} when training starts"
        yield warn(ID, message, f"grubrics-tui model fetch {name}")


def _training_command(folder: Path, config: Config) -> str | None:
    """The command that trains the missing model, if a config here writes it."""
    if folder.is_relative_to(TINY_WORLD):
        return MAKE_TINY_WORLD
    if folder.name != "final":
        return None
    for name in config_names():
        try:
            other = load_config(name, env={})
        except UsageError:
            continue
        if other.kind == SFT and Path(checkpoint_dir(other)) == folder.parent:
            return f"grubrics-tui launch {other.name}"
    return "grubrics-tui launch sft_healthbench" if asks_judge(config) else None


def _overwritten_models(subject: Subject) -> Iterator[Check]:
    """A run whose model is overwritten would be resumed with a different model."""
    folder = Path(checkpoint_dir(subject.config)).absolute()
    for row in _other_runs(subject.runs, subject.ahead):
        manifest = Run(subject.runs / row.id).read_full_manifest()
        names = map(manifest.value, _MODEL_KEYS)
        name = jsonl.location(next(filter(None, names), None))
        if name is None:
            continue
        model = Path(manifest.working_folder, Path(name).expanduser()).absolute()
        if model.is_relative_to(folder):
            message = f"{model}, which this run would overwrite, is the model of run '{row.id}'"
            yield warn(ID, f"{message} ({row.state.word})", _another_folder(subject.config))


def _other_runs(root: Path, ahead: Collection[str]) -> list[RunRow]:
    """The active runs that will not have ended when this one starts.

    Runs of users who are not trusted do not count: anybody can write that a run is active.
    """
    active = [row for row in list_runs(root) if not row.state.has_ended and row.id not in ahead]
    return [row for row in active if is_neighbor(f"{root}/{row.id}")]


def _find_writer(subject: Subject, model: Path) -> str | None:
    """Find the run, among those that this one waits for, that will write the model."""
    for run in sorted(subject.ahead):
        if model.absolute().is_relative_to(_checkpoint_folder(Run(subject.runs / run))):
            return run
    return None


def _checkpoint_folder(run: Run) -> Path:
    """Where a run saves its checkpoints."""
    manifest = run.read_manifest()
    return Path(manifest.working_folder, manifest.checkpoint_dir or "").absolute()


def _checkpoints_of_others(subject: Subject) -> Iterator[Check]:
    """Two runs must not save into one folder, and a run must not continue the checkpoints of
    another configuration: a launch takes a folder of its own."""
    complaint = folder_objection(subject.config, subject.runs, subject.ahead)
    stamp = read_stamp(Path(checkpoint_dir(subject.config)).expanduser())
    if complaint is None:
        return
    owner = Run(Path(stamp.directory)) if stamp else None
    differences = _differences(subject.config, owner) if owner else ""
    detail = f" ({STAMP}); {differences}" if differences else ""
    # A run that did all its steps cannot be resumed.
    is_open = owner is not None and owner.manifest_file.exists() and not _is_over(owner)
    resume = f"to continue it: grubrics-tui resume {owner.id}" if owner and is_open else None
    yield warn(ID, f"{complaint}{detail}; a launch saves to a folder of its own", resume)


def _is_over(run: Run) -> bool:
    """Whether a run is active, or has trained all of its steps."""
    state = observed_state(run)
    return state.went_well or not state.has_ended


def folder_objection(config: Config, runs: Path, ahead: Collection[str] = ()) -> str | None:
    """Why a new run of this config cannot save into the config's folder, or None.

    ``ahead``: the runs that will have ended when it starts.
    """
    folder = Path(checkpoint_dir(config)).expanduser()
    for row in _other_runs(runs, ahead):
        run = Run(runs / row.id)
        if row.state.state != "queued" and _checkpoint_folder(run) == folder.absolute():
            return f"{folder} is being written by run '{row.id}'"
    stamp = read_stamp(folder)
    if stamp is None:
        return None
    fingerprint = training_fingerprint(config)
    if stamp.fingerprint == fingerprint and Path(stamp.directory).name in ahead:
        return None
    resumes = asked_step(folder, config.values, Path.cwd()) is not None
    complaint = objection(folder, Stamp("", 0.0, "", fingerprint), resumes)
    is_there = Run(Path(stamp.directory)).manifest_file.exists()
    return complaint or (_not_continued(config, folder, stamp) if is_there else None)


def _not_continued(config: Config, folder: Path, stamp: Stamp) -> str | None:
    """Why a launch of the same config does not continue the checkpoints of an earlier run, which
    then stay as they are. SFT writes its model where other configs look for it."""
    mode = config.get("trainer.resume_mode")
    if config.kind == SFT or mode == "resume_path" or not holds_checkpoints(folder):
        return None
    if mode != "auto":
        return f"{folder} holds checkpoints of run '{stamp.run}'"
    step = max(complete_steps(folder, wanted=WantedFiles.by_config(config.values)), default=0)
    plan = step_plan(config)
    if plan is None or step < max(1, plan.total):
        return None
    return f"{folder} has step {step} of run '{stamp.run}', the last one: nothing is left to train"


def _differences(config: Config, owner: Run) -> str:
    """Describe how a config differs from an earlier run; empty if that has no config any more."""
    try:
        before = load_config(str(owner.config_file), env={})
    except UsageError:
        return ""
    earlier, now = training_values(before), training_values(config)
    keys = sorted(key for key in {*earlier, *now} if earlier.get(key) != now.get(key))
    # A value that follows from one that was set says nothing more.
    given = [key for key in keys if before.is_chosen(key) or config.is_chosen(key)]
    keys = given or keys
    manifest = owner.read_manifest()
    recorded = {**code_values(manifest), **tool_values(manifest), **data_values(manifest)}
    hashes = {**code_hashes(config), **training_data_hashes(config)}
    edited = [name for name in hashes if recorded.get(name, hashes[name]) != hashes[name]]
    differences = [
        *(f"{name} was edited" for name in edited),
        *(f"{key} was {earlier.get(key)}, now {now.get(key)}" for key in keys),
    ]
    more = len(differences) - _MAX_DIFFERENCES
    shown = ", ".join(differences[:_MAX_DIFFERENCES])
    return f"{shown}, and {more} more" if more > 0 else shown


def _another_folder(config: Config) -> str:
    key, folder = config.kind.run_name_key, checkpoint_dir(config)
    renamed = f"{key}={config.get(key)}-2"
    if checkpoint_dir(config.with_overrides([renamed])) != folder:
        return renamed
    return f"{config.kind.checkpoint_key}={folder}-2"


def _existing_checkpoints(config: Config) -> Iterator[Check]:
    """Check what the run does with the checkpoints in its folder."""
    folder = Path(checkpoint_dir(config)).expanduser()
    is_sft, mode = config.kind == SFT, config.get("trainer.resume_mode")
    steps, complete = written_steps(folder), {}
    if mode == "auto" and not is_sft:
        complete = complete_steps(folder, wanted=WantedFiles.by_config(config.values))
    key = config.kind.resume_key
    if config.get(key) if is_sft else mode == "resume_path":
        path = str(config.get(key) or "")
        if "global_step_" not in path or not Path(path).is_dir():
            message = f"{key}={path or 'null'} is not an existing global_step_N folder"
            yield fail(ID, f"{config.path}: {message}")
    elif complete:
        step, plan = max(complete), step_plan(config)
        total = None if plan is None else plan.total
        message = f"{folder}: trainer.resume_mode=auto resumes from step {step}"
        if total is not None and step >= total:
            past = f"{message}, the last of {format_count(total, 'step')}: nothing is left to train"
            yield fail(ID, past, _another_folder(config))
        else:
            yield warn(ID, f"{message} and does not start from step 0", _another_folder(config))
    elif steps:
        numbers = ", ".join(map(str, steps))
        message = (
            f"{folder} contains checkpoints of an earlier run (steps {numbers}); they will be "
            "moved to a subfolder"
        )
        yield warn(ID, message, _another_folder(config))
    if is_sft and (folder / "final").is_dir():
        saved_by = read_stamp(folder)
        owner = f" of run '{saved_by.run}'" if saved_by else ""
        message = f"{folder / 'final'}{owner} exists and will be overwritten"
        yield warn(ID, message, _another_folder(config))
