"""Launch any command as a run: the same supervisor, states, queue and logs, without a config."""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from msgspec import structs
from pydantic import ValidationError

from engine.base.errors import UsageError, unknown_name
from engine.base.masking import MASK, is_secret_name, mask_text, mask_words
from engine.base.text import format_command
from engine.config.keys import flatten, unflatten
from engine.config.load import parse_override
from engine.config.schema import GuardSection, Section, SupervisionSection
from engine.config.secrets import refuse_secret
from engine.launch.launcher import choose_directory, start_run
from engine.launch.queueing import ticket_for
from engine.logs.formats.detect import find_format
from engine.logs.formats.pattern import PatternFormat, is_pattern
from engine.run.host.environment import program_snapshot
from engine.run.host.gpus import ALL, Shortage, choose, read_devices, visible
from engine.run.host.surroundings import surroundings
from engine.run.host.system import open_gpus
from engine.run.kinds import COMMAND
from engine.run.manifest import (
    AttemptRecord,
    FullManifest,
    PipelineRecord,
    Setting,
    Settings,
    Ticket,
)
from engine.run.marks import new_mark
from engine.run.registry import ActiveRuns
from engine.run.run import Run
from engine.supervise.queue import Start
from engine.supervise.slurm_jobs import follower_argv, parse_options, submitted_argv

_SCRIPT = re.compile(r"[\w./~-]+\.(?:py|sh)")
_DEVICES = "CUDA_VISIBLE_DEVICES"
_OF_THE_SHELL = re.compile(
    r"_|SHLVL|SHELL|(?:OLD)?PWD|PATH|PS[0-4]|VIRTUAL_ENV\w*|CONDA_\w*|COLUMNS|LINES|TERM\w*|LS_COLORS"
    r"|TMUX\w*|SSH_\w*|DISPLAY|PYTEST_\w*|GRUBRICS_\w*|CUDA_(?:VISIBLE_DEVICES|DEVICE_ORDER)"
)
_NO_NAME = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True)
class CommandPlan:
    """Everything that launching a command will do."""

    directory: Path
    argv: tuple[str, ...]
    cwd: Path
    ticket: Ticket | None
    gpus: int
    """How many GPUs it may use; a run that may use one has them in its state."""
    variables: Mapping[str, str]
    """Variables of the command besides those of the launching shell."""
    metrics: str | None
    """A file or folder of metrics, or a pattern of lines; None: known formats in the console."""
    log_format: str | None = None
    """The key of the format of the console or the metrics; None: detected."""
    slurm: tuple[str, ...] = ()
    """Options of sbatch; empty: this machine executes the command."""
    settings: Settings = field(default_factory=dict)
    """The settings of guard and supervision that were chosen."""
    pipeline: PipelineRecord | None = None
    """The stages of a pipeline, which the command launches."""
    total_steps: int | None = None
    """How many steps the command takes, if that is known before it starts."""

    @property
    def shown_argv(self) -> list[str]:
        """The command without the secrets in it."""
        return mask_words(self.argv)

    def executed(self, argv: Sequence[str]) -> list[str]:
        """What the supervisor starts to execute ``argv``: itself, or what submits it to Slurm."""
        if not self.slurm:
            return list(argv)
        return follower_argv(self.slurm, argv)


def plan_command(
    argv: Sequence[str],
    runs: Path,
    *,
    name: str | None = None,
    cwd: Path | None = None,
    after: str | None = None,
    queue: bool = False,
    gpus: int | None = None,
    metrics: str | None = None,
    log_format: str | None = None,
    slurm: Sequence[str] = (),
    settings: Settings | None = None,
    given: Mapping[str, str] | None = None,
) -> CommandPlan:
    """Plan a run of ``argv`` in the folder ``cwd``, with ``gpus`` GPUs (default: all visible ones).

    ``given``: variables of an earlier run, where this process was given no others.

    Nothing is written. UsageError for a missing program or folder, an invalid or taken name, an
    invalid ``after``, format or pattern of ``metrics``, fewer GPUs than asked for, or options of
    ``slurm`` where there is none.
    """
    folder = (cwd or Path.cwd()).absolute()
    if not folder.is_dir():
        raise UsageError(f"--cwd: {folder} is not a folder")
    # A relative path begins in the folder.
    if shutil.which(folder / argv[0] if os.sep in argv[0] else argv[0]) is None:
        raise UsageError(f"'{argv[0]}': no such program. Usage: grubrics-tui run -- COMMAND")
    if metrics is not None and is_pattern(metrics):
        PatternFormat(metrics)
    if log_format is not None:
        find_format(log_format)
    options = _slurm_options(slurm, gpus, queue)
    count, variables = _choose_gpus(0 if options else gpus, runs, queue)
    return CommandPlan(
        directory=choose_directory(runs, name, run_stem(program_name(argv))),
        argv=tuple(argv),
        cwd=folder,
        ticket=ticket_for(runs, after=after, turn=queue, count_gpus=lambda: count),
        gpus=count,
        variables={} if options else {**(given or {}), **_given_variables(), **variables},
        metrics=metrics,
        slurm=options,
        log_format=log_format,
        settings=settings or {},
    )


def plan_command_again(
    run: Run,
    runs: Path,
    added: Sequence[str] = (),
    *,
    name: str | None = None,
    after: str | None = None,
    queue: bool = False,
) -> CommandPlan:
    """Plan the command of ``run`` once more: its folder, metrics, number of GPUs and settings, and
    the words ``added`` at its end.

    Nothing is written. UsageError like ``plan_command``, and for a run that was not launched by
    ``run``, or whose command holds a secret, which no file of a run keeps.
    """
    manifest = run.read_full_manifest()
    argv: Sequence[str] = manifest.attempts[0].argv if manifest.attempts else ()
    if not manifest.is_command:
        raise UsageError(
            f"run '{run.id}' has a config. To launch it again: grubrics-tui launch --from {run.id}"
        )
    if manifest.adopted is not None:
        run.require_config()
    if pipeline := manifest.pipeline:
        raise UsageError(
            f"run '{run.id}' is a pipeline. To run it again: grubrics-tui pipeline {pipeline.file}"
        )
    slurm, cwd = manifest.slurm or (), manifest.cwd
    if slurm and "--" in argv:
        argv = submitted_argv(argv)
    if not argv or cwd is None:
        raise UsageError(f"{run.manifest_file}: the command or its folder is missing")
    if any(MASK in word for word in argv):
        raise UsageError(
            f"the command of run '{run.id}' holds a secret, which no file keeps. Give the whole "
            f"command: grubrics-tui run -- {format_command(argv)}"
        )
    chose_gpus = _DEVICES in manifest.variables or manifest.queue is not None
    return plan_command(
        [*argv, *added],
        runs,
        name=name,
        cwd=Path(cwd),
        after=after,
        queue=queue,
        gpus=manifest.gpus if chose_gpus else None,
        metrics=manifest.metrics,
        log_format=manifest.format,
        slurm=slurm,
        settings=manifest.config,
        given={name: value for name, value in manifest.variables.items() if name != _DEVICES},
    )


def launch_command(plan: CommandPlan) -> Run:
    """Create the run directory and start its supervisor, detached from this process.

    UsageError if the directory cannot be written or the supervisor does not start.
    """
    shown = plan.shown_argv
    argv = None if shown == list(plan.argv) else plan.executed(plan.argv)
    return start_run(plan.directory, lambda: _manifest(plan), argv=argv)


def _manifest(plan: CommandPlan) -> FullManifest:
    argv = plan.shown_argv
    title = plan.pipeline.name if plan.pipeline else program_name(plan.argv)
    return structs.replace(
        command_manifest(plan.directory.name, argv, plan.executed(argv), plan.cwd, title),
        cwd=str(plan.cwd),
        variables=dict(plan.variables),
        metrics=plan.metrics,
        format=plan.log_format,
        total_steps=plan.total_steps,
        gpus=plan.gpus,
        queue=plan.ticket,
        slurm=plan.slurm or None,
        pipeline=plan.pipeline,
        config=dict(plan.settings),
    )


def command_manifest(
    run_id: str,
    argv: Sequence[str],
    executed: Sequence[str],
    folder: Path,
    title: str,
) -> FullManifest:
    """The manifest of a run without a config: its ``argv`` in ``folder``, for which its supervisor
    starts ``executed``; ``title`` is what lists show."""
    now, program = time.time(), argv[0]
    parts = surroundings(folder, None, [])
    # The packages of this interpreter say nothing about those of the program.
    found = program_snapshot(str(folder / program) if os.sep in program else program)
    return FullManifest(
        v=1,
        id=run_id,
        mark=new_mark(),
        name=run_id,
        kind=COMMAND,
        argv=tuple(argv),
        created=now,
        environment=found or {},
        git=parts.git,
        hardware=parts.hardware,
        attempts=[AttemptRecord(number=1, started=now, argv=tuple(executed))],
        config_name=title,
    )


def _given_variables() -> dict[str, str]:
    """Variables that this process was given, as by ``NAME=value`` before the command: its shell
    started without them. Secrets are left out, and what describes the terminal and the folder."""
    try:
        before = psutil.Process(os.getppid()).environ()
        given = psutil.Process().environ()  # Without what this program has set since.
    except psutil.Error:
        return {}
    return {
        name: value
        for name, value in given.items()
        if before.get(name) != value
        and not _OF_THE_SHELL.fullmatch(name)
        and not is_secret_name(name)
        and mask_text(value) == value
    }


def _slurm_options(slurm: Sequence[str], gpus: int | None, queue: bool) -> tuple[str, ...]:
    """The options of sbatch; UsageError where they do not fit, or Slurm is not there."""
    options = parse_options(slurm)
    if not options:
        return ()
    if gpus is not None:
        raise UsageError("--gpus is for this machine. In Slurm: --slurm gres=gpu:K")
    if queue:
        raise UsageError("--queue is for this machine; Slurm has its own queue. Leave it out")
    if shutil.which("sbatch") is None:
        raise UsageError("--slurm: sbatch is not on the PATH; launch from a login node of Slurm")
    return options


def _choose_gpus(wanted: int | None, runs: Path, queue: bool) -> tuple[int, Mapping[str, str]]:
    """How many GPUs the command may use, and the variables that restrict it to them.

    A queued run gets its GPUs when it starts. UsageError if there are too few, or, for a run that
    starts now, too few free ones.
    """
    devices, allowed = read_devices(open_gpus()), os.environ.get(_DEVICES)
    present = len(visible(ALL if allowed is None else allowed, devices))
    if wanted is None:
        return present, {}
    if wanted > present:
        raise UsageError(f"--gpus {wanted}: {present} GPUs can be seen here")
    if wanted == 0:
        return 0, {_DEVICES: ""}
    if queue:
        return wanted, {}
    states = ActiveRuns(runs).read()
    claims = {name: state.gpus for name, state in states.items() if state.gpus is not None}
    chosen = choose(wanted, devices, claims, allowed)
    if isinstance(chosen, Shortage):
        raise UsageError(f"--gpus: {chosen.message}. To wait for them, add --queue")
    return wanted, Start(chosen).environment


def program_name(argv: Sequence[str]) -> str:
    """The script that the command runs, else its program."""
    script = next((word for word in argv if _SCRIPT.fullmatch(word)), argv[0])
    return Path(script).name


def run_stem(program: str) -> str:
    """The beginning of the run's ID."""
    return _NO_NAME.sub("-", Path(program).stem).strip("-._")[:80] or "run"


class CommandSections(Section):
    supervision: SupervisionSection = SupervisionSection()
    guard: GuardSection = GuardSection(stop_at_once=True)
    """Nothing is known of a command's checkpoints, so a stop waits for none."""


def read_settings(stop_on: str | None, overrides: Sequence[str]) -> Settings:
    """The settings of guard and supervision, with only those that were chosen.

    ``stop_on`` are names of findings, separated by commas, on which the guard stops the run.
    UsageError for an unknown key or an invalid value.
    """
    chosen = dict(parse_override(text) for text in overrides)
    if stop_on is not None:
        chosen["guard.stop_on"] = [name.strip() for name in stop_on.split(",")]
    if not chosen:
        return {}
    for key, value in chosen.items():
        refuse_secret("--set", key, value)
    known = dict(flatten(CommandSections().model_dump()))
    for key in chosen:
        if key not in known:
            raise unknown_name("setting", key, sorted(known))
    values = {key: chosen.get(key, default) for key, default in known.items()}
    try:
        CommandSections.model_validate(unflatten(values))
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        raise UsageError(f"{key}={first['input']!r}: {first['msg']}") from error
    settings = {key: Setting(value, "cli") for key, value in chosen.items()}
    if any(key.startswith("guard.") for key in chosen):
        settings.setdefault("guard.stop_at_once", Setting(True, "default"))
    return settings
