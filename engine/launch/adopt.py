"""Adopt a program that was launched elsewhere, or the files that one writes: a run like others.

Nothing is written where the program runs. Its logs are copied to the run directory as they grow.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from msgspec import structs

from engine.base.errors import UsageError
from engine.base.masking import holds_secret, mask_data, mask_text, mask_words
from engine.base.quantities import format_size
from engine.config.keys import flatten
from engine.launch.command import command_manifest, program_name, run_stem
from engine.launch.launcher import choose_directory, start_run
from engine.logs.formats.detect import detect, find_format
from engine.logs.formats.format import About
from engine.logs.formats.pattern import PatternFormat, is_pattern
from engine.run.host.programs import own_module
from engine.run.host.running_program import RunningProgram, held_gpus, read_program
from engine.run.host.system import open_gpus
from engine.run.manifest import Adopted, FullManifest, Setting
from engine.run.notes import MOST_TAGS, add_tags, is_tag
from engine.run.run import Run, run_ids
from engine.run.state import observed_state
from engine.supervise.hosts import find_host

_HEAD = 4 * 1024 * 1024
"""Bytes of a log in which it tells about its run."""


@dataclass(frozen=True)
class Adoption:
    """Everything that adopting will do."""

    directory: Path
    adopted: Adopted
    argv: tuple[str, ...]
    """The command of the program, without its secrets; of files their path."""
    cwd: Path
    metrics: str | None
    log_format: str | None
    gpus: tuple[int, ...] = ()
    """Indices of the GPUs that the program holds."""
    about: About = About()  # noqa: RUF009 - frozen
    """What the files tell about the run."""

    @property
    def tags(self) -> list[str]:
        """The tags of the log that a run can have."""
        given = dict.fromkeys(self.about.tags)
        return [tag for tag in given if is_tag(tag) and not holds_secret(tag)][:MOST_TAGS]

    @property
    def other_tags(self) -> str:
        """The tags that it cannot have, by their characters or number; empty without any."""
        return mask_text(", ".join(repr(tag) for tag in self.about.tags if tag not in self.tags))

    def to_json(self) -> dict[str, object]:
        process = self.adopted.process
        return {
            "run": self.directory.name,
            "dir": str(self.directory),
            "pid": process.pid if process else None,
            "path": self.adopted.path,
            "logs": list(self.adopted.logs),
            "argv": list(self.argv),
            "gpus": list(self.gpus),
        }


def plan_adoption(
    target: str,
    runs: Path,
    *,
    name: str | None = None,
    logs: Sequence[Path] = (),
    metrics: str | None = None,
    log_format: str | None = None,
) -> Adoption:
    """Plan a run of ``target``: the pid of a process, or the path of a log or of a run's folder.

    ``logs`` are the files that a process prints to (default: those of its stdout and stderr), and
    ``metrics`` a file or folder that it writes, or a pattern of lines. Nothing is written.
    UsageError for what cannot be followed, is a run already, or is already adopted.
    """
    if log_format is not None:
        find_format(log_format)
    if metrics is not None and is_pattern(metrics):
        PatternFormat(metrics)
    if target.isdecimal():
        adoption = _of_process(read_program(int(target)), runs, name, logs, metrics, log_format)
    else:
        if logs:
            raise UsageError("--log is for a process; a path is the log itself")
        adoption = _of_files(Path(target), runs, name, metrics, log_format)
    _require_new(adoption.adopted, runs)
    _require_room(adoption)
    return adoption


def adopt(adoption: Adoption) -> Run:
    """Create the run directory and start the supervisor; UsageError as for a launch."""
    run = start_run(adoption.directory, lambda: _manifest(adoption))
    if adoption.tags:
        add_tags(run, adoption.tags)
    return run


def _of_process(
    program: RunningProgram,
    runs: Path,
    name: str | None,
    logs: Sequence[Path],
    metrics: str | None,
    log_format: str | None,
) -> Adoption:
    for log in logs:
        if not log.is_file():
            raise UsageError(f"--log: {log} is not a file")
    path = program.cwd / metrics if metrics is not None and not is_pattern(metrics) else None
    return Adoption(
        directory=choose_directory(runs, name, run_stem(program_name(program.argv))),
        adopted=Adopted(
            process=program.identity,
            logs=tuple(map(str, [log.resolve() for log in logs] or program.logs)),
            started=program.started,
        ),
        argv=tuple(mask_words(program.argv)),
        cwd=program.cwd,
        metrics=str(path) if path else metrics,
        log_format=log_format,
        gpus=tuple(held_gpus(program.identity, open_gpus())),
    )


def _of_files(
    given: Path, runs: Path, name: str | None, metrics: str | None, log_format: str | None
) -> Adoption:
    if metrics is not None and not is_pattern(metrics):
        raise UsageError(f"--metrics {metrics}: adopt that path itself: grubrics-tui adopt PATH")
    if not given.exists():
        raise UsageError(f"{given}: no such file or folder. For a process, give its pid")
    given = given.resolve()
    around = (Run(folder) for folder in (given, *given.parents))
    if (run := next((one for one in around if one.is_one()), None)) is not None:
        raise UsageError(f"{given} belongs to run '{run.id}' of {run.path.parent}, a run already")
    log = detect(given, metrics or log_format)
    # Readable text is copied to the console log, but not a file of metrics.
    console = log.format.console_of(log.path)
    is_metrics = console == log.path and not log.format.is_console
    reader = log.open()
    reader.poll(_HEAD)
    about = reader.about()
    stem = run_stem(about.name or log.format.run_name(given, log.path))
    return Adoption(
        directory=choose_directory(runs, name, stem),
        adopted=Adopted(
            path=str(log.path),
            logs=() if console is None or is_metrics else (str(console),),
            started=about.started,
        ),
        argv=(str(given),),
        cwd=given if given.is_dir() else given.parent,
        metrics=metrics if log.format.is_console else str(log.path),
        log_format=None if metrics else log.format.key,
        about=about,
    )


def _require_new(adopted: Adopted, runs: Path) -> None:
    """Raise UsageError if a run follows the same, or has followed it to its end."""
    for run in (Run(runs / name) for name in run_ids(runs)):
        if not run.is_command or (other := run.read_manifest().adopted) is None:
            continue
        is_same = (adopted.process, adopted.path) == (other.process, other.path)
        if is_same and not observed_state(run).has_ended:
            raise UsageError(f"{adopted.where} is already adopted as run '{run.id}'")
        if is_same and find_host(run).has_unknown_end():
            raise UsageError(
                f"{adopted.where} was adopted as run '{run.id}', which has ended. To adopt it "
                f"again, delete that first: grubrics-tui delete {run.id}"
            )


def _require_room(adoption: Adoption) -> None:
    """Raise UsageError if the disk has no room for the copies of the logs."""
    size = sum(log.stat().st_size for log in map(Path, adoption.adopted.logs) if log.exists())
    root = next(path for path in adoption.directory.absolute().parents if path.exists())
    free = shutil.disk_usage(root).free
    if size > free:
        raise UsageError(
            f"the logs have {format_size(size)}, which are copied, and {root} has "
            f"{format_size(free)} free. Choose another folder with --runs"
        )


def _manifest(adoption: Adoption) -> FullManifest:
    devices = {"CUDA_VISIBLE_DEVICES": ",".join(map(str, adoption.gpus))} if adoption.gpus else {}
    run, argv, cwd = adoption.directory, adoption.argv, adoption.cwd
    follower = own_module("engine.supervise.adopted_follower", str(run.absolute()))
    return structs.replace(
        command_manifest(run.name, argv, follower, cwd, program_name(argv)),
        adopted=adoption.adopted,
        # The folder of the program may vanish; that of the run stays.
        cwd=str(adoption.cwd if os.access(adoption.cwd, os.X_OK) else Path.cwd()),
        variables=devices,
        metrics=adoption.metrics,
        format=adoption.log_format,
        gpus=len(adoption.gpus),
        config={
            key: Setting(value, "file")
            for key, value in mask_data(dict(flatten(adoption.about.config))).items()
        },
    )
