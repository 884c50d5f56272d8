"""Check that the starting model exists, and what checkpoints in the run's folder mean for it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from engine.base import jsonl
from engine.base.errors import UsageError, nearest
from engine.base.masking import mask, mask_url
from engine.checkpoints.model_folder import missing_parts
from engine.checkpoints.ownership import STAMP, Stamp, asked_step, objection, read_stamp
from engine.checkpoints.step_folders import WantedFiles, complete_steps, written_steps
from engine.own_reward.code_fingerprints import code_values, data_values
from engine.preflight.check import Check, Subject, fail, summary, warn
from engine.preflight.dataset import MAKE_TINY_WORLD, TINY_WORLD
from engine.recipe import hub
from engine.recipe.config_files import config_names
from engine.recipe.frozen import (
    code_hashes,
    training_data_hashes,
    training_fingerprint,
    training_values,
)
from engine.recipe.places import checkpoint_dir, is_hub_name, local_folder, model_name
from engine.recipe.recipe import Recipe, load_recipe
from engine.recipe.scoring import asks_judge
from engine.runs.columns import RunInfo
from engine.runs.kinds import KINDS, SFT
from engine.runs.registry import list_runs
from engine.runs.rundir import RunDir
from engine.runs.trust import is_neighbor

ID = "checkpoint"
_MODEL_KEYS = tuple(kind.model_key for kind in KINDS.values())


def check(subject: Subject) -> Check:
    """The model folder's parts, and checkpoints that an earlier run left in this one's way."""
    found = [*_model(subject), *_undermined(subject), *_folder(subject)]
    name = model_name(subject.recipe)
    folder = local_folder(name, subject.env)
    if folder is not None and not missing_parts(folder):
        where = f"{name} is complete"
    else:
        where = f"{name} will be downloaded from {mask_url(hub.endpoint(subject.env))}"
    return summary(ID, found, f"{where}; {_beginning(subject.recipe)}")


def _beginning(recipe: Recipe) -> str:
    """Where a run starts whose checkpoint folder holds nothing to go on from by itself."""
    given = recipe.get(recipe.kind.resume_key)
    if given and (recipe.kind == SFT or recipe.get("trainer.resume_mode") == "resume_path"):
        return f"resumes from {given}"
    return "starts from step 0"


def _model(subject: Subject) -> Iterator[Check]:
    recipe, name = subject.recipe, model_name(subject.recipe)
    where = f"{recipe.path}: {recipe.kind.model_key}={name}"
    folder = local_folder(name, subject.env)
    if folder is not None and not (is_hub_name(name) and missing_parts(folder)):
        yield from _incomplete(where, folder, subject.recipe)
    elif (writer := _writer(subject, Path(name))) is not None:
        yield warn(ID, f"{where} does not exist yet; run '{writer}' will write it")
    elif not is_hub_name(name):
        hint = _neighbour(Path(name).expanduser())
        yield fail(ID, f"{where} does not exist{hint}", _making(Path(name), subject.recipe))
    elif (variable := hub.is_offline(subject.env)) is not None:
        lacking = f" with {' and '.join(missing_parts(folder))}" if folder is not None else ""
        yield fail(
            ID, f"{where} is not in the hub's cache{lacking}, and {variable} disables downloads"
        )
    else:
        yield from _on_hub(subject, where, name)


def _on_hub(subject: Subject, where: str, name: str) -> Iterator[Check]:
    """Whether the hub has the model and gives it to this user."""
    said, found = hub.ask(name, subject.env), hub.find_token(subject.env)
    if said.state == "there":
        return
    host = mask_url(hub.endpoint(subject.env))
    token = f"the token of {found[1]} ({mask(found[0])})" if found else "HF_TOKEN is not set"
    sent = " was sent" if found else ""
    access = f"accept its terms at {host}/{name}" + (
        _USE_TOKEN if found else f", then {_SET_TOKEN}"
    )
    key = subject.recipe.kind.model_key
    folder = f"models/{Path(name).name}"
    get = f"hf download {name} --local-dir {folder}, then {key}={folder}"
    messages = {
        "gated": (
            f"is gated on {host}, and {token}{f' has no access ({said.detail})' if found else ''}",
            access,
        ),
        "refused": (
            f"cannot be loaded: {host} answers {said.detail}; {token}{sent}",
            f"open {host}/{name} in a browser to see whether the model or the network is blocked",
        ),
        "denied": (f"cannot be loaded: {host} refuses {token}", _SET_TOKEN),
        "missing": (
            f"does not exist on {host}, or is private; {token}{sent}",
            f"check the spelling; for a private model {_SET_TOKEN}",
        ),
        "empty": (f"has no config.json on {host}", "choose a model in the transformers format"),
        "unreachable": (
            f"is not on this disk, and {host} cannot be reached ({said.detail})",
            f"on a machine with network access: {get}",
        ),
        "invalid": (f"is not on this disk, and {said.detail}", "set HF_ENDPOINT, or remove it"),
        "exposed": (f"was not looked for: {said.detail}", "an https:// address in HF_ENDPOINT"),
        "busy": (f"was not looked for: {host} answers {said.detail}", "try again later"),
    }
    message, fix = messages[said.state]
    # A cluster's nodes may have the network, the token and the cache that are missing here.
    elsewhere = subject.env.get("RAY_ADDRESS", "local") not in ("", "local")
    harmless = said.state == "busy" or (elsewhere and said.state != "exposed")
    yield (warn if harmless else fail)(ID, f"{where} {message}", fix)


_SET_TOKEN = "set HF_TOKEN in .env"
_USE_TOKEN = " with the account of this token, and allow it to read gated repositories"


def _incomplete(where: str, folder: Path, recipe: Recipe) -> Iterator[Check]:
    lacking = missing_parts(folder)
    if not lacking:
        return
    if (folder / "actor").is_dir() or list(folder.glob("model_world_size_*")):
        hint = " (a training checkpoint of verl is shards; merge it with verl.model_merger)"
    else:
        hint = ""
    yield fail(ID, f"{where} has no {' and no '.join(lacking)}{hint}", _making(folder, recipe))


def _neighbour(folder: Path) -> str:
    """The model beside it with the most similar name."""
    models = [path.parent.name for path in folder.parent.glob("*/config.json")]
    close = nearest(folder.name, models)
    return f"; did you mean {folder.parent / close}?" if close is not None else ""


def _making(folder: Path, recipe: Recipe) -> str | None:
    """The command that trains the model which is missing, when a recipe here says so."""
    if folder.is_relative_to(TINY_WORLD):
        return MAKE_TINY_WORLD
    if folder.name != "final":
        return None
    for name in config_names():
        try:
            other = load_recipe(name, env={})
        except UsageError:
            continue
        if other.kind == SFT and Path(checkpoint_dir(other)) == folder.parent:
            return f"grubrics-tui launch {other.name}"
    return "grubrics-tui launch sft_healthbench" if asks_judge(recipe) else None


def _folder(subject: Subject) -> list[Check]:
    """Whether the checkpoint folder is free, and if it is, what starting in it means."""
    shared = [*_shared(subject)]
    if any(one.status == "fail" for one in shared):
        return shared
    return [*shared, *([*_owned(subject)] or _resume(subject.recipe))]


def _shared(subject: Subject) -> Iterator[Check]:
    """Two runs that save into one folder destroy each other's checkpoints."""
    recipe = subject.recipe
    folder = Path(checkpoint_dir(recipe)).absolute()
    for info in _going_on(subject):
        if info.state.state == "queued" or _folder_of(RunDir(subject.runs / info.id)) != folder:
            continue
        message = f"{folder} is being written by run '{info.id}'"
        if subject.waits:
            yield warn(ID, f"{message}; this is checked again before this run starts")
            continue
        key = recipe.kind.checkpoint_key if recipe.kind == SFT else "trainer.experiment_name"
        yield fail(ID, message, f"wait for it, grubrics-tui stop {info.id}, or another {key}")


def _undermined(subject: Subject) -> Iterator[Check]:
    """A model that is overwritten is another one when the run that began with it is resumed."""
    folder = Path(checkpoint_dir(subject.recipe)).absolute()
    for info in _going_on(subject):
        model = _model_of(RunDir(subject.runs / info.id))
        if model is not None and model.is_relative_to(folder):
            message = f"{model}, which this run would overwrite, is the model of run '{info.id}'"
            yield warn(ID, f"{message} ({info.state.state})", _another_folder(subject.recipe))


def _going_on(subject: Subject) -> list[RunInfo]:
    """The runs that have not ended, and will not have when this one starts; a stranger's word that
    they run is not taken."""
    runs = list_runs(subject.runs)
    active = [info for info in runs if not info.state.has_ended and info.id not in subject.ahead]
    return [info for info in active if is_neighbor(f"{subject.runs}/{info.id}")]


def _writer(subject: Subject, model: Path) -> str | None:
    """The run, among those that this one waits for, whose checkpoints the model will be."""
    folders = {run: _folder_of(RunDir(subject.runs / run)) for run in sorted(subject.ahead)}
    path = model.expanduser().absolute()
    return next((run for run, folder in folders.items() if path.is_relative_to(folder)), None)


def _model_of(run: RunDir) -> Path | None:
    """The folder of a run's model; None when its manifest names none."""
    manifest = run.read_manifest()
    config = manifest.get("config") or {}
    names = [config.get(key, {}).get("value") for key in _MODEL_KEYS]
    name = jsonl.location(next((name for name in names if name), None))
    cwd = str(manifest.get("cwd") or "")
    return None if name is None else Path(cwd, Path(name).expanduser()).absolute()


def _folder_of(run: RunDir) -> Path:
    """Where a run saves its checkpoints."""
    manifest = run.read_manifest()
    cwd, folder = manifest.get("cwd") or "", manifest.get("checkpoint_dir") or ""
    return Path(str(cwd), str(folder)).absolute()


def _owned(subject: Subject) -> Iterator[Check]:
    """A fresh run must not overwrite or continue what another configuration trained."""
    recipe = subject.recipe
    folder = Path(checkpoint_dir(recipe)).expanduser()
    stamp, fingerprint = read_stamp(folder), training_fingerprint(recipe)
    asked = asked_step(folder, recipe.values, Path.cwd()) is not None
    complaint = objection(folder, Stamp("", 0.0, "", fingerprint), asked)
    if stamp is None or complaint is None:
        return
    free_by_then = subject.waits or Path(stamp.directory) in _directories_ahead(subject)
    if free_by_then and stamp.fingerprint == fingerprint:
        return
    owner = RunDir(Path(stamp.directory))
    differing = _differing(recipe, owner)
    detail = f" ({STAMP}); {differing}" if differing else f" ({STAMP})"
    fresh = _another_folder(recipe)
    onward = f"grubrics-tui resume {stamp.run}, or " if owner.manifest.exists() else ""
    yield fail(ID, complaint + detail, f"{onward}{fresh}")


def _directories_ahead(subject: Subject) -> list[Path]:
    return [(subject.runs / run).absolute() for run in subject.ahead]


def _differing(recipe: Recipe, owner: RunDir) -> str:
    """The values in which a recipe differs from an earlier run, where that still has its files."""
    try:
        earlier = training_values(load_recipe(str(owner.recipe), env={}))
    except UsageError:
        return ""
    now = training_values(recipe)
    keys = sorted(key for key in {*earlier, *now} if earlier.get(key) != now.get(key))
    contents = owner.read_manifest()
    kept = {**code_values(contents), **data_values(contents)}
    files = {**code_hashes(recipe), **training_data_hashes(recipe)}
    found = [
        *(f"{name} was edited" for name in files if kept.get(name, files[name]) != files[name]),
        *(f"{key} was {earlier.get(key)}, now {now.get(key)}" for key in keys),
    ]
    shown = ", ".join(found[:3])
    return f"{shown}, and {len(found) - 3} more" if len(found) > 3 else shown


def _another_folder(recipe: Recipe) -> str:
    if recipe.kind == SFT:
        return f"training.output_dir={recipe.get('training.output_dir')}-2"
    name = str(recipe.get("trainer.experiment_name"))
    if name in Path(checkpoint_dir(recipe)).parts:
        return f"trainer.experiment_name={name}-2"
    return f"trainer.default_local_dir={checkpoint_dir(recipe)}-2"


def _resume(recipe: Recipe) -> Iterator[Check]:
    folder = Path(checkpoint_dir(recipe)).expanduser()
    if recipe.kind == SFT:
        yield from _sft(recipe, folder)
        return
    mode = recipe.get("trainer.resume_mode")
    if mode == "resume_path":
        yield from _existing_step(recipe, "trainer.resume_from_path")
        return
    whole = complete_steps(folder, wanted=WantedFiles.by_config(recipe.values))
    if mode == "auto" and whole:
        yield _leftover(recipe, folder, max(whole))
    elif written_steps(folder):
        yield _moved_away(recipe, folder)


def _sft(recipe: Recipe, folder: Path) -> Iterator[Check]:
    if recipe.get("training.resume_from"):
        yield from _existing_step(recipe, "training.resume_from")
    elif written_steps(folder):
        yield _moved_away(recipe, folder)
    if (folder / "final").is_dir():
        yield warn(
            ID, f"{folder / 'final'} exists and will be overwritten", _another_folder(recipe)
        )


def _moved_away(recipe: Recipe, folder: Path) -> Check:
    steps = ", ".join(str(step) for step in written_steps(folder))
    message = (
        f"{folder} contains checkpoints of an earlier run (steps {steps}); they will be moved to "
        "a subfolder"
    )
    return warn(ID, message, _another_folder(recipe))


def _leftover(recipe: Recipe, folder: Path, step: int) -> Check:
    total = recipe.get("trainer.total_training_steps")
    where = f"{folder}: trainer.resume_mode=auto"
    if total is not None and step >= total:
        message = f"{where} resumes from step {step}, which is past total_training_steps={total}"
        return fail(ID, message, _another_folder(recipe))
    message = f"{where} resumes from step {step} and does not start from step 0"
    return warn(ID, message, _another_folder(recipe))


def _existing_step(recipe: Recipe, key: str) -> Iterator[Check]:
    path = str(recipe.get(key) or "")
    if "global_step_" not in path or not Path(path).is_dir():
        yield fail(
            ID, f"{recipe.path}: {key}={path or 'null'} is not an existing global_step_N folder"
        )
