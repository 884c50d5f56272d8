"""The manifest of a run as a record: how it was launched, with which values and on what.

A manifest is a file that may have been edited, copied from another machine, or damaged: a damaged
field counts as missing, and texts for display are safe to display. Commands and paths stay as they
were written, because they are used.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import force_setattr

from engine.base import jsonl
from engine.base.typed import Integer, Json, Line, Location, Moment, VariableName, Word, Words
from engine.run.identity import Identity
from engine.run.kinds import ADOPTED, COMMAND, KINDS, PIPELINE

_CHECKPOINT_KEYS = frozenset(kind.checkpoint_key for kind in KINDS.values())

_RELATIONS = {"reproduction": "repro"}
"""What a screen calls a relation, where the manifest has another word."""

_FORMER_RELATIONS = {"remedy": "fix"}
"""Words of manifests that earlier versions wrote."""

_MOVED = {
    "engine.pipelines.runner": "engine.launch.pipelines.runner",
    "engine.preflight.gate": "engine.checks.gate",
}
"""Modules in the commands of earlier manifests, by the name that they had then."""


Origin = Literal["default", "preset", "file", "cli", "environment", "implied"]
"""Where a value came from; ``implied``: nobody set it, it follows from values that were set."""


class Setting(Struct, frozen=True, omit_defaults=True, gc=False):
    """An effective value of a config."""

    value: Json
    """The value that the trainer got."""
    origin: Origin | Literal[""] = ""
    """Empty where it is not known."""
    reference: bool = False
    """Whether the value is a ``${...}`` that refers to a secret."""

    @property
    def is_chosen(self) -> bool:
        """Whether a person set the value."""
        return self.origin not in ("default", "implied")


Settings = Mapping[str, Setting]
"""By dotted key."""


def values_of(settings: Settings) -> dict[str, object]:
    """The effective values by dotted key."""
    return {key: setting.value for key, setting in settings.items()}


def value_of(settings: Settings, key: str) -> object:
    """The effective value of a key; None where there is none."""
    return settings[key].value if key in settings else None


class Override(Struct, frozen=True, kw_only=True):
    """A value that the command line or the environment set over that of the config file."""

    key: Line
    """The dotted key."""
    before: object = None
    """The value of the config file."""
    after: object = None
    """The value that the run used."""
    origin: Line | None = None
    """``cli``, ``environment`` or ``preset``."""
    end: Line | UnsetType = UNSET
    """The end of the key that a launch accepts and that names no other key."""

    def __post_init__(self) -> None:
        _require(self.key, "key")
        if self.end is not UNSET and not (self.end and f".{self.key}".endswith(f".{self.end}")):
            force_setattr(self, "end", UNSET)
        force_setattr(self, "before", _shown(self.before))
        force_setattr(self, "after", _shown(self.after))

    def is_folder_of(self, run_id: str | None) -> bool:
        """Whether it is a checkpoint folder with the name of the run, or with its end: the folder
        of ``RUN-repro`` is ``repro``, that of an ablation's ``ABLATION-ARM-s1`` is ``ARM-s1``.
        """
        if self.key not in _CHECKPOINT_KEYS or not run_id:
            return False
        folder = str(self.after).rstrip("/").rpartition("/")[2]
        return bool(folder) and f"-{run_id}".endswith(f"-{folder}")


class Parent(Struct, frozen=True):
    """The run that another one derives from: by a fix (``fix``), a ``reproduction``, or a launch
    of its config (``relaunch``)."""

    run: Line
    """The ID of that run."""
    relation: Line
    """``fix``, ``reproduction`` or ``relaunch``."""

    def __post_init__(self) -> None:
        _require(self.run, "run")
        _require(self.relation, "relation")
        if self.relation in _FORMER_RELATIONS:
            force_setattr(self, "relation", _FORMER_RELATIONS[self.relation])

    @property
    def phrase(self) -> str:
        """``fix of RUN``, ``repro of RUN`` or ``relaunch of RUN``."""
        return f"{_RELATIONS.get(self.relation, self.relation)} of {self.run}"


class FileFacts(Struct, frozen=True, omit_defaults=True):
    """The fingerprint of a file. Large files of a model have ``sampled_sha256`` instead of
    ``sha256``; ``rows`` is of data."""

    sha256: Line | None = None
    sampled_sha256: Line | None = None
    bytes: Integer | None = None
    """The size."""
    rows: Integer | None = None
    """Of data; None for other files."""

    def __post_init__(self) -> None:
        _require(self.digest, "sha256")

    @property
    def digest(self) -> str:
        """The hash that identifies the content."""
        return self.sha256 or self.sampled_sha256 or ""


Files = Mapping[str, FileFacts]
"""Fingerprints by path, relative to the folder of the launch."""


class Surroundings(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a run depends on besides its own values.

    ``environment`` (Python, packages, variables), ``git`` and ``hardware`` are JSON as the machine
    gave it: comparisons show every fact in them. ``git`` is None outside of a repository.
    """

    environment: dict[str, Json] = {}
    """``python``, ``packages``, ``variables`` and others."""
    git: dict[str, Json] | UnsetType | None = UNSET
    """``commit``, ``branch`` and ``dirty``; UNSET where it was not recorded."""
    hardware: dict[str, Json] = {}
    """``cpu``, ``gpus``, ``memory`` (bytes) and others."""
    recipe_file: dict[Location, FileFacts] = {}
    """The config file."""
    data: dict[Location, FileFacts] = {}
    """Training and validation files."""
    code: dict[Location, FileFacts] = {}
    """The reward function; its own file is the first."""
    reward_inputs: dict[Location, FileFacts] = {}
    """Files that the reward function reads."""
    tools: dict[Location, FileFacts] = {}
    """The code of the tools of an agent loop."""
    model: dict[Location, FileFacts] = {}
    """The files of the model that training starts from."""

    def files(self, part: str) -> Files:
        """The files of one of ``FILE_PARTS``."""
        files: Files = getattr(self, part)
        return files


FILE_PARTS = ("recipe_file", "data", "code", "reward_inputs", "tools", "model")


class Difference(Struct, frozen=True):
    """A fact of the surroundings before and after it changed; ``what`` is its path, such as
    ``environment.packages.torch``."""

    what: Line
    before: object = None
    after: object = None


class AttemptRecord(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One start of a run. ``from_`` is the checkpoint that it began with."""

    number: Integer
    """From 1."""
    started: Moment | None = None
    """When it was started."""
    argv: Words = ()
    """The command that the supervisor starts."""
    from_step: Integer | None = None
    """The step of that checkpoint; None for a start from the model."""
    from_: Location | None = msgspec.field(default=None, name="from")
    changes_since: list[Difference] = []
    """What changed since the attempt before."""
    surroundings: Surroundings | None = None
    """None for the first attempt, whose surroundings are those of the manifest."""

    def __post_init__(self) -> None:
        force_setattr(self, "argv", _present_names(self.argv))


class Ticket(Struct, frozen=True):
    """What a run waits for.

    ``after`` is a run that must finish first. ``turn``: it also waits until all runs that joined
    before it have started and ``gpus`` GPUs are free (0: until no other run is active).
    """

    after: Line | None = None
    turn: bool = False
    gpus: Integer = 0
    joined: Moment = 0.0


class Adopted(Struct, frozen=True, kw_only=True):
    """What an adopted run follows."""

    process: Identity | None = None
    """The program; None where only its files are known."""
    path: Location | None = None
    """The file or folder whose growth shows that the program runs; None for a process."""
    logs: tuple[Location, ...] = ()
    """The files that are copied to the console log."""
    started: Moment | None = None
    """When the program started in Unix seconds; None where only its files are known."""

    @property
    def where(self) -> str:
        if self.process is not None:
            return f"process {self.process.pid}"
        return jsonl.line(str(self.path)) or "?"


class StageRecord(Struct, frozen=True):
    """A stage of a pipeline and its run; of a skipped stage, that of an earlier start or None."""

    name: Line = ""
    kind: Line = ""
    words: Words | None = None
    run: Line | None = None
    skipped: bool = False


class PipelineRecord(Struct, frozen=True):
    """The pipeline that a run launches. A stage that cannot be read is None."""

    name: Line = ""
    file: Line = ""
    stages: tuple[StageRecord | None, ...] = ()


class Place(Struct, frozen=True):
    """The folder of a run, by which a copy differs from the launched run."""

    path: Location = ""
    inode: Line = ""


class WandbNames(Struct, frozen=True):
    """What the run is called in W&B."""

    name: Line | None = None
    group: Line | None = None


class Manifest(Surroundings, frozen=True, kw_only=True, omit_defaults=True):
    """All of a manifest but the config. Without a valid file it is empty."""

    v: Integer | None = None
    """The version of the format."""
    id: Line | None = None
    """The ID of the run."""
    mark: Line | None = None
    """The text that the run's processes carry."""
    folder: Place | None = None
    """Where the launch made the run; a copy is elsewhere."""
    name: Line | None = None
    """The ID that the launch chose."""
    config_name: Line | None = msgspec.field(default=None, name="recipe")
    """The name of the config, or the title of a command."""
    config_path: Location | None = None
    """The config file, as the launch found it."""
    kind: Line | None = None
    """``grpo``, ``sft`` or ``command``."""
    description: Line | None = None
    """``grubrics.description`` of the config."""
    argv: Words = ()
    """The command line that launched the trainer."""
    cwd: Location | None = None
    """The folder of the launch."""
    variables: dict[VariableName, Word] = {}
    """What the processes are given besides the environment of the launch."""
    created: Moment | None = None
    """When the run was launched."""
    fingerprint: Line | None = None
    """A hash of values, data and code: equal for runs that train the same."""
    changes: list[Override] = []
    """The overrides of the launch."""
    in_file: dict[Line, object] | None = None
    """What the config file had for overridden keys; see ``values_in_file``."""
    world_size: Integer | None = None
    """The processes that train: one for each GPU, or each rank on a CPU."""
    seeds: dict[str, Json] = {}
    """The values of all keys that end in ``seed``."""
    deterministic: dict[VariableName, Word] | None = None
    """The variables that make training deterministic; None without."""
    total_steps: Integer | None = None
    """The steps that the run was to take; None where that was not known."""
    checkpoint_dir: Location | None = None
    """The folder of its checkpoints; relative ones begin at ``cwd``."""
    parent: Parent | None = None
    """None for a run that derives from no other."""
    drift: list[Difference] = []
    """How the surroundings differ from those of the parent."""
    warnings: list[Line] = []
    """What the launch warned of."""
    queue: Ticket | None = None
    """What the run waited for; None for one that did not wait."""
    gpus: Integer | None = None
    """The GPUs that a command was given."""
    metrics: Line | None = None
    """The file of a command's metrics, where it was named."""
    format: Line | None = None
    """The format of a command's logs, where it was named."""
    ray: Line | None = None
    """The address of the Ray cluster; None on this machine."""
    slurm: Words | None = None
    """The options of its Slurm job; None without."""
    adopted: Adopted | None = None
    """Only of a run that was launched elsewhere."""
    pipeline: PipelineRecord | None = None
    """Only of a run that launches the stages of a pipeline."""
    wandb: WandbNames | None = None
    """None for a run without a config."""
    attempts: list[AttemptRecord] = []
    """The starts of the run, the oldest first."""

    def __post_init__(self) -> None:
        force_setattr(self, "argv", _present_names(self.argv))
        if self.in_file is not None:
            force_setattr(self, "in_file", _shown(self.in_file))

    @property
    def is_empty(self) -> bool:
        """Whether the file is missing, or holds no valid field."""
        return self == type(self)()

    @property
    def is_command(self) -> bool:
        """Whether the run executes a command, and has no config."""
        return self.kind == COMMAND

    @property
    def listed_kind(self) -> str | None:
        """The kind as lists, JSON and filters call it."""
        if self.kind != COMMAND:
            return self.kind
        return ADOPTED if self.adopted is not None else PIPELINE if self.pipeline else COMMAND

    @property
    def working_folder(self) -> Path:
        """Where the command is executed; relative paths of the manifest begin there."""
        return Path(self.cwd or ".")

    @property
    def values_in_file(self) -> dict[str, object]:
        """The values of the config file for the keys that were overridden since.

        A derived run records them at its launch; for other runs they follow from the overrides.
        """
        if self.in_file is not None:
            return self.in_file
        return {change.key: change.before for change in self.changes}

    @property
    def effective_changes(self) -> list[Override]:
        """The overrides whose value differs from that of the file."""
        return [change for change in self.changes if repr(change.before) != repr(change.after)]

    def format_changes(self) -> list[str]:
        """``effective_changes`` as ``lr=3e-05``: of each key the recorded end, which a launch
        accepts.

        The checkpoint folder that a launch gives a run is left out: it follows from the run's name.
        """
        return [
            f"{change.end or change.key}={_format_value(change.after)}"
            for change in self.effective_changes
            if not change.is_folder_of(self.id)
        ]

    @property
    def parent_phrase(self) -> str:
        """``Parent.phrase``; empty for a run without a parent."""
        return self.parent.phrase if self.parent else ""

    @property
    def given_variables(self) -> list[str]:
        """``NAME=value`` of what a command was given besides the environment of its shell."""
        return [f"{name}={value}" for name, value in self.variables.items()]

    @property
    def command(self) -> list[str]:
        """The command line of a run without a config, with the variables before it; empty for
        others and for adopted ones."""
        is_known = self.is_command and self.argv and self.adopted is None
        return [*self.given_variables, *self.argv] if is_known else []


class FullManifest(Manifest, frozen=True, kw_only=True, omit_defaults=True):
    """A manifest with every value of the config: a thousand of them."""

    config: dict[str, Setting] = {}
    """By dotted key."""

    @property
    def values(self) -> dict[str, object]:
        """The effective values by dotted key."""
        return values_of(self.config)

    def value(self, key: str) -> object:
        """The effective value of a key; None where there is none."""
        return value_of(self.config, key)


class ConfigRecord(Struct, frozen=True):
    """The config alone, in its own file or in a manifest of an earlier version."""

    config: dict[str, Setting] = {}


def _require(text: str, field: str) -> None:
    if not text:
        raise ValueError(f"{field} is missing")


def _present_names(words: Words) -> Words:
    return words if _MOVED.keys().isdisjoint(words) else tuple(_MOVED.get(w, w) for w in words)


def _format_value(value: object) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _shown(value: object) -> object:
    """A JSON value for display only."""
    return _tidy(jsonl.shallow(value))


def _tidy(value: object) -> object:
    if isinstance(value, str):
        return jsonl.line(value)
    if isinstance(value, dict):
        return {jsonl.line(key) or "?": _tidy(item) for key, item in value.items()}
    return [_tidy(item) for item in value] if isinstance(value, list) else value
