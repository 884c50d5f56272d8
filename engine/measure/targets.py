"""What is evaluated: a checkpoint, a model, texts that no model wrote, or another evaluation."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct

from engine.base.errors import UsageError, nearest
from engine.base.judge_providers import asks_server
from engine.base.typed import to_json
from engine.config.load import Config
from engine.measure.items import digest
from engine.run.checkpoints.find import check_checkpoint, complete_checkpoints
from engine.run.checkpoints.model_folder import missing_parts, model_files
from engine.run.checkpoints.ownership import checkpoint_folder, read_stamp
from engine.run.checkpoints.step_folders import WantedFiles, step_problem, written_steps
from engine.run.host.environment import model_fingerprint
from engine.run.kinds import find_kind
from engine.run.registry import list_runs
from engine.run.run import Run, find_run

Form = Literal["checkpoint", "model", "hub", "golden", "random", "judge", "evaluation"]

TEXTS: tuple[Form, ...] = ("golden", "random")
"""Texts that no model wrote."""
BASELINES = ("base", "sft", *TEXTS, "judge")

_STEP = re.compile(r"(?P<run>.+):(?P<step>[0-9]+)")
_HUB_NAME = re.compile(r"[\w.-]+/[\w.-]+")


class Target(Struct, frozen=True):
    """One thing to evaluate.

    ``source``: the folder of a checkpoint, of a model or of a target of another evaluation, a hub
    name, or empty. ``sha256`` identifies the weights by their files (large files by samples of
    them); for a hub name it is that of the name, for texts that of their kind, and for the judge's
    model that of its settings.
    """

    name: str
    form: Form
    source: str
    sha256: str

    @property
    def slug(self) -> str:
        """The name of its folder in an evaluation."""
        return f"{re.sub(r'[^A-Za-z0-9.=-]+', '-', self.name)[:60]}-{self.sha256[:8]}"

    def is_of(self, run_id: str) -> bool:
        """Whether it is a run, by its ID, or a checkpoint of it."""
        return self.name == run_id or self.name.startswith(f"{run_id}:")


def find_target(text: str, root: Path, names: Sequence[str] = ()) -> Target:
    """The target that ``text`` names: RUN, RUN:STEP, a checkpoint or model folder, or a hub name.

    ``root`` is the folder of the runs. UsageError for an unknown name, with the nearest run or one
    of ``names``, and for a checkpoint or model that is not complete.
    """
    path = Path(text).expanduser()
    if path.is_dir() and not Run(path).manifest_file.is_file():
        return folder_target(path, str(path))
    ids = [run.id for run in list_runs(root)] if root.is_dir() else []
    name, step = _split_step(text, ids)
    if name in ids or any(run_id.startswith(name) for run_id in ids):
        return run_target(find_run(root, name), step)
    if Run(path).manifest_file.is_file():
        return run_target(Run(path), None)
    if _HUB_NAME.fullmatch(text) and not path.parent.is_dir():
        return Target(text, "hub", text, digest(text))
    close = nearest(name, [*names, *ids])
    hint = f"; did you mean {'' if close in names else 'run '}'{close}'?" if close else ""
    raise UsageError(f"target '{text}' is neither a run, a folder nor a model's name{hint}")


def run_target(run: Run, step: int | None) -> Target:
    """A checkpoint of a run: of ``step``, or the last complete one."""
    steps = complete_checkpoints(run)
    if step is None:
        report = check_checkpoint(run)
        if report.complete and report.path is not None:
            name = run.id if report.step is None else f"{run.id}:{report.step}"
            return folder_target(report.path, name)
        if not steps:
            raise UsageError(f"run '{run.id}': {report.message}")
        step = max(steps)
    if step in steps:
        return folder_target(steps[step], f"{run.id}:{step}")
    manifest = run.read_full_manifest()
    folder, wanted = checkpoint_folder(manifest), WantedFiles.by_config(manifest.values)
    if folder is not None and (path := written_steps(folder).get(step)) is not None:
        problem = step_problem(path, wanted) or "it is of another run, or is still being written"
        raise UsageError(f"{path}: incomplete, {problem}")
    known = f"complete checkpoints: {', '.join(map(str, steps))}" if steps else "it has none"
    raise UsageError(f"run '{run.id}' has no checkpoint of step {step}; {known}")


def folder_target(folder: Path, name: str) -> Target:
    """A ``global_step_N`` folder, a Hugging Face model or a LoRA adapter."""
    if any((folder / part).is_dir() for part in ("actor", "huggingface")):
        problem = step_problem(folder)
        if problem is not None:
            raise UsageError(f"{folder}: incomplete, {problem}")
        shards = folder / "actor" if (folder / "actor").is_dir() else folder
        return Target(name, "checkpoint", str(folder), _weights_digest(shards))
    if not (folder / "adapter_config.json").is_file() and (lacking := missing_parts(folder)):
        raise UsageError(f"{folder}: not a model, it has no {' and no '.join(lacking)}")
    return Target(name, "model", str(folder), _weights_digest(folder))


def find_baseline(name: str, config: Config, root: Path) -> Target:
    """A named baseline of a run with this config, or any other target.

    ``base`` is the model before all training: where the run starts from an SFT run's model, the
    model that the SFT started from. ``sft`` is that SFT model. ``judge`` is the judge's model.
    """
    if name in TEXTS:
        form: Form = "golden" if name == "golden" else "random"
        return Target(name, form, "", digest(name))
    if name == "judge":
        return _judge_target(config)
    if name not in ("base", "sft"):
        return find_target(name, root, BASELINES)
    models = list(_origins(str(config.get(config.kind.model_key))))
    if name == "base":
        return _model(models[-1], "base", root)
    if len(models) < 2:
        raise UsageError(
            f"baseline 'sft': {config.kind.model_key}={models[0]} is not the model of an SFT run"
        )
    return _model(models[0], "sft", root)


def _judge_target(config: Config) -> Target:
    provider = config.get("judge.provider")
    if not asks_server(provider):
        raise UsageError(
            f"baseline 'judge': judge.provider={provider} has no model that could write answers. "
            "Name a config with another judge: --config CONFIG"
        )
    return Target("judge", "judge", "", digest(["judge", judge_identity(config)]))


def judge_identity(config: Config) -> dict[str, Any]:
    """The values of the config that decide what the judge's model writes."""
    judge = config.section("judge")
    keys = ("provider", "model", "base_url", "temperature", "max_tokens")
    return {key: judge.get(key) for key in keys}


def _model(source: str, name: str, root: Path) -> Target:
    if Path(source).is_dir():
        return folder_target(Path(source), name)
    found = find_target(source, root)
    return Target(name, found.form, found.source, found.sha256)


def _origins(model: str) -> Iterator[str]:
    """The model, the model that the run which made it started from, and so on."""
    seen: set[str] = set()
    while model not in seen:
        yield model
        seen.add(model)
        stamp = read_stamp(Path(model)) or read_stamp(Path(model).parent)
        if stamp is None:
            return
        manifest = Run(Path(stamp.directory)).read_full_manifest()
        kind = find_kind(manifest.kind)
        source = manifest.value(kind.model_key) if kind else None
        if not source:
            return
        model = str(source)


def _split_step(text: str, ids: list[str]) -> tuple[str, int | None]:
    match = _STEP.fullmatch(text)
    if match is None or text in ids:
        return text, None
    return match["run"], int(match["step"])


def _weights_digest(folder: Path) -> str:
    """Of the files that decide what the model generates."""
    files = [*model_files(folder)]
    if (folder / "huggingface").is_dir():
        files = [*folder.glob("model_world_size_*.pt"), *folder.glob("lora_train_meta.json")]
        files += model_files(folder / "huggingface")
    prints = {
        str(file.relative_to(folder)): to_json(model_fingerprint(file)) for file in sorted(files)
    }
    return digest(prints)


_WEIGHTS = ("model_world_size_*.pt", "lora_train_meta.json", "fsdp_config.json", "huggingface/*")


@contextmanager
def leased(target: Target, folder: Path) -> Iterator[str]:
    """Yield a path with the target's weights that stays until the end.

    verl deletes old checkpoints when it saves new ones. Hard links below ``folder`` keep the files
    without a second copy. Where the file system has no hard links, the checkpoint itself is used.
    """
    if target.form != "checkpoint":
        yield target.source
        return
    lease = folder / "weights"
    shutil.rmtree(lease, ignore_errors=True)
    try:
        try:
            _link(Path(target.source), lease)
            source = str(lease.absolute())
        except OSError:
            source = target.source
        yield source
    finally:
        shutil.rmtree(lease, ignore_errors=True)


def _link(checkpoint: Path, lease: Path) -> None:
    shards = checkpoint / "actor" if (checkpoint / "actor").is_dir() else checkpoint
    for pattern in _WEIGHTS:
        for file in shards.glob(pattern):
            if file.is_file():
                link = lease / file.relative_to(shards)
                link.parent.mkdir(parents=True, exist_ok=True)
                os.link(file, link)
