"""A run: the names of its files, its records, and whether it is still there."""

from __future__ import annotations

import errno
import os
import re
import time
from dataclasses import dataclass
from pathlib import Path

from msgspec.structs import replace

from engine.base import jsonl
from engine.base.errors import UsageError, nearest, unknown_name
from engine.base.quantities import format_size
from engine.base.typed import read_record, to_json, write_record
from engine.run.manifest import ConfigRecord, FullManifest, Manifest, Setting

RUN_ID_VARIABLE = "GRUBRICS_RUN_ID"
ATTEMPT_DIR_VARIABLE = "GRUBRICS_ATTEMPT_DIR"
RUNS_VARIABLE = "GRUBRICS_RUNS"
ON_CLUSTER_VARIABLE = "GRUBRICS_ON_CLUSTER"
"""Set in the processes of a run on a Ray cluster: only the cluster ends them."""

MARK_VARIABLE = "GRUBRICS_RUN_MARK"
SUPERVISES_VARIABLE = "GRUBRICS_SUPERVISES"
DETERMINISTIC_VARIABLE = "GRUBRICS_DETERMINISTIC"
"""Has the processes of a run use deterministic algorithms of torch."""
ARGV_VARIABLE = "GRUBRICS_ARGV"
"""Of a supervisor: the command as a JSON list, where the manifest holds it without its secrets."""

MARKS = frozenset(
    {
        RUN_ID_VARIABLE,
        ATTEMPT_DIR_VARIABLE,
        ON_CLUSTER_VARIABLE,
        MARK_VARIABLE,
        SUPERVISES_VARIABLE,
        ARGV_VARIABLE,
    }
)
"""Variables that identify a process of a run (see ``engine.run.marks``)."""

SETTINGS = "config.json"

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


@dataclass(frozen=True)
class Run:
    """A run: its folder, ``runs/<id>``, what is in it, and its records.

    It holds the path only: methods read on each call, and nothing is cached. A property that ends
    in ``_file`` is the file of a record; logs and folders go by their names.
    """

    path: Path
    """The folder of the run."""

    @property
    def id(self) -> str:
        """The folder's name, safe to display: control characters of an external folder's name are
        removed."""
        return jsonl.line(self.path.name) or "?"

    @property
    def manifest_file(self) -> Path:
        """What the launch recorded: ``Manifest``."""
        return self.path / "manifest.json"

    @property
    def config_file(self) -> Path:
        """The config of the launch."""
        return self.path / "recipe.yaml"

    @property
    def settings_file(self) -> Path:
        """Every value of the config with its origin. Earlier versions wrote them to the manifest,
        and a command has none."""
        return self.path / SETTINGS

    @property
    def state_file(self) -> Path:
        """State, step and heartbeat, which the supervisor replaces."""
        return self.path / "state.json"

    @property
    def events(self) -> Path:
        """What happened to the run: a line of JSON for each event."""
        return self.path / "run_log.jsonl"

    @property
    def train_log(self) -> Path:
        """The metrics of all attempts: a line of JSON for each step."""
        return self.path / "train_log.jsonl"

    @property
    def notes_file(self) -> Path:
        """Tags and the note of the user."""
        return self.path / "notes.json"

    @property
    def code(self) -> Path:
        """The files of the config's reward function, as of the launch."""
        return self.path / "code"

    @property
    def data(self) -> Path:
        """Copies of the data of the launch (``engine/launch/kept_data.py``)."""
        return self.path / "data"

    @property
    def requests(self) -> Path:
        """What commands ask of the supervisor."""
        return self.path / "requests"

    def is_one(self) -> bool:
        """Whether the folder is a run: other trainers also write a ``manifest.json``."""
        if not self.manifest_file.exists():
            return False
        return self.state_file.exists() or self.read_manifest().v is not None

    def attempt(self, number: int) -> Attempt:
        """The attempt with this number, from 1. Its folder may be missing."""
        return Attempt(self.path / f"attempt_{number}")

    def attempts(self) -> list[Attempt]:
        """The attempts on disk, oldest first."""
        paths = [path for path in self.path.glob("attempt_*") if path.name[8:].isdecimal()]
        return [Attempt(path) for path in sorted(paths, key=lambda path: int(path.name[8:]))]

    @property
    def is_command(self) -> bool:
        """Whether it executes a command, and has no config."""
        return self.read_manifest().is_command

    @property
    def follows_files(self) -> bool:
        """Whether it only follows files of a program: it takes nothing of the machine."""
        adopted = self.read_manifest().adopted
        return adopted is not None and adopted.process is None

    def require_config(self) -> None:
        """Raise UsageError for a run without a config; it says how to run that again."""
        manifest = self.read_manifest()
        if not manifest.is_command:
            return
        if manifest.adopted is not None:
            raise UsageError(f"run '{self.id}' was launched elsewhere, and is launched again there")
        pipeline = manifest.pipeline
        again = f"pipeline {pipeline.file}" if pipeline else f"run --from {self.id}"
        raise UsageError(
            f"run '{self.id}' executes a command, which has no config. To run it again: "
            f"grubrics-tui {again}"
        )

    def read_manifest(self) -> Manifest:
        """The manifest without the config; an empty one if there is none."""
        return read_record(self.manifest_file, Manifest) or Manifest()

    def read_full_manifest(self) -> FullManifest:
        """The manifest with the config; an empty one if there is none."""
        manifest = read_record(self.manifest_file, FullManifest) or FullManifest()
        return replace(manifest, config=self.read_config()) if self._has_settings else manifest

    def read_config(self) -> dict[str, Setting]:
        """The config alone; empty if there is none."""
        file = self.settings_file if self._has_settings else self.manifest_file
        record = read_record(file, ConfigRecord)
        return {} if record is None else record.config

    def no_config(self) -> str:
        """The error for a run without a value of its config: the file that should hold them."""
        file = self.settings_file if self._has_settings else self.manifest_file
        problem, launched = f"{file} holds no values of a config", self.config_file
        if not launched.exists():
            return problem
        return f"{problem}. Restore it from a copy of the run; {launched} is the config as launched"

    def write_manifest(self, manifest: FullManifest) -> None:
        """Write the manifest and the config. OSError."""
        if manifest.config or self._has_settings:
            write_record(self.settings_file, ConfigRecord(config=manifest.config))
        jsonl.write_json(self.manifest_file, to_json(replace(manifest, config={})))

    @property
    def _has_settings(self) -> bool:
        return exists(f"{self.path}/{SETTINGS}")


@dataclass(frozen=True)
class Attempt:
    """One start of a run, ``attempt_<n>``: raw output and numbers of its processes."""

    path: Path
    """The folder of the attempt."""

    @property
    def number(self) -> int:
        """From 1."""
        return int(self.path.name.removeprefix("attempt_"))

    @property
    def console(self) -> Path:
        """What its processes printed."""
        return self.path / "console.log"

    @property
    def metrics(self) -> Path:
        """The metrics as the trainer logs them: a line of JSON for each step."""
        return self.path / "metrics.jsonl"

    @property
    def reward(self) -> Path:
        """A line of JSON for each scored rollout: ``RewardRecord``."""
        return self.path / "reward.jsonl"

    @property
    def system(self) -> Path:
        """Samples of the machine: a line of JSON for each."""
        return self.path / "system.jsonl"

    @property
    def rollouts(self) -> Path:
        """The folder of the rollouts that the trainer dumps: a file for each step."""
        return self.path / "rollouts"

    @property
    def validation(self) -> Path:
        """The same of validations."""
        return self.path / "validation"


def runs_root(path: str | None = None) -> Path:
    """The runs directory: ``path``, else $GRUBRICS_RUNS, else ./runs. It may not exist yet.

    UsageError for a file, and for the directory of a run. A quoted ``~`` is the home directory.
    """
    root = Path(os.path.expanduser(path or os.environ.get(RUNS_VARIABLE) or "runs"))  # noqa: PTH111
    if root.exists() and not root.is_dir():
        raise UsageError(f"{root} is a file, not a directory of runs")
    if Run(root).is_one():
        raise UsageError(f"{root} is a run; name the directory that holds it: {root.parent}")
    return root


def archive_root(root: Path) -> Path:
    """The archive of a runs directory: a runs directory inside it."""
    return root / ".archive"


def check_id(run_id: str) -> str:
    """Return a valid ``run_id``; UsageError otherwise."""
    if not _ID.fullmatch(run_id):
        raise UsageError(
            f"run name {run_id!r} must be ASCII letters, digits, '.', '_' or '-', at most 100"
        )
    return run_id


def find_run(root: Path, run_id: str) -> Run:
    """Find a run by its ID or a unique prefix.

    The path of a run in ``root`` is accepted too: a launch prints it, and shells complete it.
    """
    run_id = run_id_of(root, run_id)
    exact = root / run_id
    if _ID.fullmatch(run_id) and (exact / "manifest.json").exists():
        return _bounded(Run(exact))
    names = run_ids(root)
    starting = [name for name in names if run_id and name.startswith(run_id)]
    if len(starting) == 1:
        return _bounded(Run(root / starting[0]))
    if len(starting) > 1:
        raise UsageError(f"run '{run_id}' is ambiguous: {', '.join(starting[:8])}")
    raise unknown_name("run", run_id, names)


def find_run_not_file(root: Path, name: str) -> Run:
    """As ``find_run``, for a name that could be that of a file: the error says which is missing."""
    try:
        return find_run(root, name)
    except UsageError:
        is_file_name = bool(Path(name).suffix) or "/" in name
        if is_file_name and not Path(name).exists() and nearest(name, run_ids(root)) is None:
            raise UsageError(f"{name}: no such file") from None
        raise


def run_id_of(root: Path, id_or_path: str) -> str:
    """The ID in ``runs/ID``. UsageError for a run of another folder."""
    path = Path(id_or_path)
    if "/" not in id_or_path or not exists(f"{path}/manifest.json"):
        return id_or_path
    if path.parent.resolve() == root.resolve():
        return path.name
    raise UsageError(
        f"{path} is not in the runs directory {root}. Use its run ID: "
        f"--runs {path.parent} ... {path.name}"
    )


def _bounded(run: Run) -> Run:
    """Return the run; UsageError for a manifest of an impossible size."""
    size, largest = run.manifest_file.stat().st_size, jsonl.LARGEST_FILE
    if size > largest:
        text = f"{format_size(size)}, and a manifest has at most {format_size(largest)}"
        raise UsageError(f"{run.manifest_file}: {text}: it is damaged, or another program wrote it")
    return run


def run_ids(root: Path) -> list[str]:
    """Every run below ``root``; a folder without a manifest is not a run."""
    return [name for name in folder_names(root) if exists(f"{root}/{name}/manifest.json")]


def exists(file: str) -> bool:
    """Whether a file of a run exists. One that the system does not show (no permission, an
    input/output error) counts, and so does one behind a link to a folder that is not there."""
    try:
        os.stat(file)  # noqa: PTH116 - faster than ten thousand path objects
    except (FileNotFoundError, NotADirectoryError):
        return _is_dangling(os.path.dirname(file))  # noqa: PTH120
    except OSError:
        pass
    return True


def _is_dangling(path: str) -> bool:
    return os.path.islink(path) and not os.path.lexists(os.path.realpath(path))  # noqa: PTH114


def folder_names(root: Path) -> list[str]:
    """The folders in ``root`` with a valid run ID as their name, sorted.

    A missing ``root`` has none.
    """
    try:
        with os.scandir(root) as entries:
            return sorted(e.name for e in entries if _ID.fullmatch(e.name) and _is_folder(e))
    except FileNotFoundError:
        return []


def _is_folder(entry: os.DirEntry[str]) -> bool:
    """True too for a link whose end cannot be seen: it may be a run on a disk that is away."""
    try:
        return entry.is_dir() or (entry.is_symlink() and _is_dangling(entry.path))
    except OSError:
        return True


_PATIENCE_S = 2.0


class OpenRunFolder:
    """Holds the folder of a run open: where it is moved, or whatever takes its place, the files of
    ``held`` are those of this run. Notices that the folder was deleted."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._descriptor = os.open(run.path, os.O_RDONLY | os.O_DIRECTORY)
        self._deleted_since: float | None = None

    @property
    def held(self) -> Run:
        """The run by its open folder: what is written there never gets into another run, even one
        that takes its name between a look and the write."""
        return Run(Path(f"/proc/self/fd/{self._descriptor}"))

    def is_gone(self) -> bool:
        """True once the folder is deleted. One that is only away (renamed, unmounted, on a server
        that does not answer) is not: its run continues in the open folder."""
        try:
            if os.fstat(self._descriptor).st_nlink == 0:
                return True
            # A deletion during a write leaves the folder without a manifest. Two calls must agree.
            manifest = self.held.manifest_file
            is_deleted = not manifest.exists() and manifest not in self.held.path.iterdir()
        except OSError:
            return False
        now = time.monotonic()
        self._deleted_since = (self._deleted_since or now) if is_deleted else None
        return self._deleted_since is not None and now - self._deleted_since > _PATIENCE_S

    def require(self) -> None:
        """OSError while the folder is not found by its path."""
        path = self._run.path
        try:
            is_there = os.path.samestat(path.stat(), os.fstat(self._descriptor))
        except OSError as error:
            raise OSError(error.errno, f"{path}: {error.strerror}") from error
        if not is_there:
            raise OSError(errno.ENOENT, f"{path} is another folder")
