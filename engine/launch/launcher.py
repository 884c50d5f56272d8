"""Launch a checked config as a detached run."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import IO

from msgspec import structs

from engine.base import files
from engine.base.errors import UsageError
from engine.base.quantities import format_stamp
from engine.base.typed import to_json
from engine.checks.check import Check
from engine.config.compose import deterministic_variables
from engine.config.executed import require_own_code
from engine.config.frozen import (
    in_file,
    manifest_config,
    pinned_argv,
    pinned_config,
    training_fingerprint,
)
from engine.config.load import Config, short_keys
from engine.config.places import checkpoint_dir, data_files, local_folder, model_name, wandb_name
from engine.config.scoring import reward_function, tools_code
from engine.config.steps import step_plan
from engine.launch.kept_data import find_copy, keep_data
from engine.reward.own.files import code_files, input_files, keep_code, keep_inputs
from engine.run.checkpoints.model_folder import model_files
from engine.run.checkpoints.ownership import STAMP
from engine.run.events import log_event
from engine.run.guard_settings import GuardSettings
from engine.run.host.programs import own_module, scope_prefix, typed_words
from engine.run.host.surroundings import surroundings
from engine.run.manifest import (
    AttemptRecord,
    Difference,
    FullManifest,
    Override,
    Parent,
    Ticket,
    WandbNames,
)
from engine.run.marks import mark_of, new_mark, place_of
from engine.run.processes import alive, end_members
from engine.run.run import (
    ARGV_VARIABLE,
    MARKS,
    SUPERVISES_VARIABLE,
    Run,
    check_id,
)
from engine.run.staging import new_staging, remove_abandoned
from engine.run.state import RunState, observed_state, recorded_state, write_state
from engine.run.trust import vouch
from engine.supervise.ray_jobs import follower_argv

_HANDSHAKE_S = 20.0

GATE = own_module("engine.checks.gate")
"""Precedes the trainer's command of a queued run: what was checked may have changed meanwhile."""


@dataclass(frozen=True)
class LaunchPlan:
    """Everything a launch will do, to be shown before it is done."""

    directory: Path
    config: Config
    ticket: Ticket | None = None
    """What the run waits for before it starts; None: it starts at once."""
    ray: str | None = None
    """The job server of the Ray cluster that trains it; None: this machine trains."""
    parent: Parent | None = None
    variables: Mapping[str, str] = field(default_factory=dict)
    """Variables that every attempt's trainer gets besides those of the launching shell."""
    warnings: tuple[str, ...] = ()
    """What the preflight checks warn of, for the run's log."""
    drift: tuple[Difference, ...] = ()
    """How software, code and data differ from those of the run that it repeats."""
    group: str | None = None
    """The ablation, or the seeds, that the run belongs to: its group in W&B."""
    folder_note: str = ""
    """Why the run does not save into the folder of its config, in one line."""

    @property
    def run_id(self) -> str:
        return self.directory.name

    @property
    def argv(self) -> tuple[str, ...]:
        """The command that trains the same without supervision."""
        program = typed_words(self.config.kind.trainer)
        return (*program, "--config", str(self.config.path), *self.config.overrides)

    @property
    def total_steps(self) -> int | None:
        """The steps that its data gives; None while the training file cannot be read."""
        steps = step_plan(self.config)
        return steps.total if steps else None

    def with_warnings(self, checks: Iterable[Check]) -> LaunchPlan:
        """The plan of a run whose log has these warnings, too."""
        added = (f"{check.id}: {check.message}" for check in checks)
        return replace(self, warnings=(*self.warnings, *added))


def plan(
    config: Config,
    name: str | None = None,
    runs: Path = Path("runs"),
    ticket: Ticket | None = None,
    ray: str | None = None,
    parent: Parent | None = None,
    variables: Mapping[str, str] | None = None,
) -> LaunchPlan:
    """Plan a run of ``config``. Nothing is written. UsageError for an invalid or taken name."""
    directory = choose_directory(runs, name, config.name)
    return LaunchPlan(directory, config, ticket, ray, parent, variables or {})


def launch(launch_plan: LaunchPlan) -> Run:
    """Create the run directory and start its supervisor, detached from this process.

    The directory appears complete (manifest included) or not at all. UsageError if it cannot be
    written, if the supervisor does not start, or if another user could have written the code.
    """
    require_own_code(launch_plan.config)

    def keep(run: Run, contents: FullManifest) -> None:
        """Write the values of the launch, and copies of the reward function and the data."""
        files.write_atomic(run.config_file, pinned_config(contents.config))
        if function := reward_function(launch_plan.config):
            keep_code(function, run.code)
            keep_inputs(function, run.code)
        keep_data(run, contents)

    return start_run(launch_plan.directory, lambda: manifest(launch_plan), keep)


AddFiles = Callable[[Run, FullManifest], None]


def start_run(
    directory: Path,
    describe: Callable[[], FullManifest],
    add_files: AddFiles = lambda run, contents: None,
    argv: Sequence[str] | None = None,
) -> Run:
    """Create ``directory`` with the manifest that ``describe`` returns, and start its supervisor.

    ``add_files`` gets the run and the manifest, and writes what else belongs to the run. ``argv``
    is the command where the manifest must not hold it (default: that of the manifest). UsageError
    as for ``launch``.
    """
    try:
        run = _create(directory, describe(), add_files)
    except OSError as error:
        if error.errno in (errno.EEXIST, errno.ENOTEMPTY):
            raise _name_taken(directory) from error
        raise UsageError(f"{directory.parent}: {error.strerror}; nothing was launched") from error
    start_supervisor(run, {ARGV_VARIABLE: json.dumps(argv)} if argv else {})
    return run


def choose_directory(runs: Path, name: str | None, stem: str) -> Path:
    """The directory of a new run: ``name``, or ``stem`` with the time. Nothing is written.

    UsageError for an invalid or taken name.
    """
    timed = f"{stem}-{format_stamp()}"
    directory = runs / (check_id(name) if name else free_name(runs, timed))
    if directory.exists():
        raise _name_taken(directory)
    return directory


def _name_taken(directory: Path) -> UsageError:
    return UsageError(
        f"run '{directory.name}' already exists in {directory.parent}. "
        "Choose another name with --name"
    )


def start_supervisor(run: Run, variables: Mapping[str, str] | None = None) -> None:
    """Start the supervisor of the run's newest attempt and wait until it has taken over.

    It gets ``variables`` besides those of this process. UsageError if it does not; then no process
    of the attempt is left.
    """
    errors = run.path / "supervisor.log"
    try:
        _start_detached(run, "engine.supervise.supervisor", errors, variables or {})
    except OSError as error:
        raise _not_started(run, f"{errors}: {error.strerror}") from error
    deadline = time.monotonic() + _HANDSHAKE_S
    # It has taken over once it reports that the run is queued, started or ended, or has died.
    while time.monotonic() < deadline:
        state = recorded_state(run)
        if state is not None and (
            state.trainer is not None
            or state.has_ended
            or (state.supervisor and (state.state == "queued" or not alive(state.supervisor)))
        ):
            if observed_state(run).state == "lost":
                break
            if GuardSettings.of(run.read_config()).is_on:
                try:
                    _start_detached(run, "engine.launch.guard", errors, {})
                except OSError as error:  # The run continues without it.
                    with contextlib.suppress(OSError):
                        text = f"the guard did not start: {error.strerror}"
                        log_event(run, "warning", message=text)
            return
        time.sleep(0.02)
    raise _not_started(run, f"see {errors}")


def _start_detached(run: Run, module: str, errors: Path, variables: Mapping[str, str]) -> None:
    """Start a module that detaches itself. OSError if it cannot be started."""
    command = own_module(module, str(run.path.resolve()))
    scope = scope_prefix(run.id, os.environ)
    with os.fdopen(files.open_to_append(errors), "ab") as log:
        if not scope or _run(run, [*scope, *command], log, variables) != 0:
            _run(run, command, log, variables)


def _not_started(run: Run, detail: str) -> UsageError:
    """Record the failure, and end a trainer whose supervisor died right after starting it."""
    end_members(run, patience_s=5.0)
    state = recorded_state(run) or RunState("failed")
    reason = "the supervisor did not start"
    with contextlib.suppress(OSError):
        write_state(run, state.evolve(state="failed", reason=reason, ended=time.time()))
    return UsageError(f"{run.path}: {reason}; {detail}")


def _run(run: Run, command: Sequence[str], log: IO[bytes], variables: Mapping[str, str]) -> int:
    # In a shell with the variables of another run, this run must not count as part of that one.
    env = {name: value for name, value in os.environ.items() if name not in MARKS}
    env.update(variables)
    if mark := mark_of(run):
        env[SUPERVISES_VARIABLE] = mark
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=env, check=False
    )
    return done.returncode


def _create(directory: Path, contents: FullManifest, add_files: AddFiles) -> Run:
    root = directory.parent
    if not root.is_dir():
        root.mkdir(parents=True, exist_ok=True)
        # Runs are no part of a project's history.
        files.write_atomic(root / ".gitignore", "*\n")
    remove_abandoned(root)
    staging = new_staging(root)
    try:
        run = Run(staging)
        files.make_folder(run.attempt(1).path)
        add_files(run, contents)
        run.write_manifest(structs.replace(contents, folder=place_of(run, directory)))
        write_state(
            run,
            RunState(
                "queued" if contents.queue else "starting",
                heartbeat=time.time(),
                total_steps=contents.total_steps,
            ),
        )
        log_event(run, "config", changes=to_json(contents.changes))
        for path, facts in contents.data.items():
            copy = find_copy(run, path, facts)
            kept = {} if copy is None else {"copy": str(copy.relative_to(run.path.absolute()))}
            log_event(run, "dataset", path=path, **to_json(facts), **kept)
        if contents.drift:
            log_event(run, "drift", since=to_json(contents.parent), changes=to_json(contents.drift))
        for message in contents.warnings:
            log_event(run, "warning", message=message)
        staging.rename(directory)
    except BaseException:
        shutil.rmtree(staging, ignore_errors=True)
        raise
    run = Run(directory)
    vouch(run)
    return run


def manifest(launch_plan: LaunchPlan) -> FullManifest:
    """The self-description of a run, written before its first step."""
    config, ticket, now = launch_plan.config, launch_plan.ticket, time.time()
    ends, function = short_keys(config), reward_function(config)
    run = Run(launch_plan.directory.absolute())
    trainer = pinned_argv(config.kind, run.config_file)
    settings = manifest_config(config, run.attempt(1).path.resolve())
    gate = GATE if ticket else ()
    if launch_plan.ray:
        trainer = follower_argv(launch_plan.ray, trainer)
    parts = surroundings(
        Path.cwd(),
        config.path,
        [path for path in data_files(config) if path.is_file()],
        code_files(function),
        _base_model(config, ticket),
        input_files(function),
        tools_code(config),
    )
    return FullManifest(
        **structs.asdict(parts),
        v=1,
        id=launch_plan.run_id,
        mark=new_mark(),
        name=launch_plan.run_id,
        config_name=config.name,
        config_path=str(config.path),
        kind=config.kind.name,
        description=config.get("grubrics.description"),
        argv=launch_plan.argv,
        cwd=str(Path.cwd()),
        variables=dict(launch_plan.variables),
        created=now,
        fingerprint=training_fingerprint(config),
        changes=[Override(**asdict(each), end=ends[each.key]) for each in config.changes],
        in_file=in_file(config),
        world_size=_world_size(config),
        seeds={key: each.value for key, each in settings.items() if key.endswith("seed")},
        deterministic=deterministic_variables(config, os.environ) or None,
        total_steps=launch_plan.total_steps,
        checkpoint_dir=checkpoint_dir(config),
        parent=launch_plan.parent,
        drift=list(launch_plan.drift),
        warnings=list(launch_plan.warnings),
        queue=ticket,
        ray=launch_plan.ray,
        wandb=WandbNames(wandb_name(config, now), launch_plan.group),
        # The trainer reads the config of the launch: the file may be edited while the run waits.
        attempts=[AttemptRecord(number=1, started=now, argv=(*gate, *trainer))],
        config=settings,
    )


def _world_size(config: Config) -> int:
    """The processes that train: one for each GPU, or each rank on a CPU, of every node."""
    return int(config.get(config.kind.gpus_key) or 1) * int(config.get("trainer.nnodes") or 1)


def _base_model(config: Config, ticket: Ticket | None) -> list[Path]:
    """The files of the initial model, if they are on this disk. A run that waits for another one
    may start from the model that this one trains."""
    folder = None if ticket and ticket.after else local_folder(model_name(config), os.environ)
    try:
        return [path for path in model_files(folder) if path.name != STAMP] if folder else []
    except OSError:
        return []


def free_name(runs: Path, stem: str) -> str:
    """``stem``, with a number if ``runs`` already has a run of that name."""
    candidates = (stem, *(f"{stem}-{number}" for number in range(2, 1000)))
    return next(name for name in candidates if not os.path.lexists(runs / name))
