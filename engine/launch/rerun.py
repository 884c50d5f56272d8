"""Rerun a run with changes, e.g. those of a fix."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from engine.base.errors import UsageError, unknown_name
from engine.checks.check import Check, warn
from engine.checks.complete_change import Refusal, as_overrides, complete
from engine.checks.preflight import require_launchable
from engine.config.config_files import config_names, find_config
from engine.config.frozen import manifest_config
from engine.config.load import ENVIRONMENT_KEYS, Config, load_config
from engine.config.places import checkpoint_dir
from engine.launch.launcher import LaunchPlan, free_name, launch, plan
from engine.launch.queueing import ahead, ticket
from engine.run.events import ask_stop
from engine.run.finding import Change
from engine.run.host.surroundings import edited_complaint
from engine.run.kinds import KINDS
from engine.run.manifest import Parent, Settings
from engine.run.run import Run, find_run, folder_names, run_id_of, run_ids
from engine.run.state import observed_state
from engine.run.trust import require


@dataclass(frozen=True)
class Rerun:
    """A changed run, planned once, to be shown, checked and launched."""

    original: Run
    plan: LaunchPlan
    changes: tuple[Change, ...]
    """The requested changes, and those that they require."""
    warnings: tuple[Check, ...] = ()
    """Of the preflight checks, none of which failed."""
    before: tuple[Run, ...] = ()
    """Runs that have the same changes already, in the order of their names."""

    @property
    def weights(self) -> str:
        """The checkpoint folder."""
        return checkpoint_dir(self.plan.config)


def plan_rerun(run: Run, changes: Sequence[Change]) -> Rerun:
    """Plan the run with the changes applied, under a free name and with its own checkpoint folder.

    It starts from the model that the run started from. Nothing is written. While the run is
    active, the new one is queued. UsageError if the changes are invalid or change nothing, or if
    the run was launched from another folder.
    """
    require_launch_folder(run)
    manifest, root = run.read_manifest(), run.path.parent
    waits, ray = not observed_state(run).has_ended, manifest.ray
    if waits and ray:
        raise UsageError(
            f"run '{run.id}' is still running on a Ray cluster, which has no queue. "
            f"Stop it first: grubrics-tui stop {run.id}"
        )
    config, name = config_of(run), free_name(root, f"{_stem(run)}fix")
    completed = complete_changes(run, config, changes)
    key, before = config.kind.checkpoint_key, checkpoint_dir(config)
    folder = str(Path(before).parent / name)
    own_folder = Change("config", key, folder, before, "keeps the checkpoints of both runs")
    changed = config.with_overrides(as_overrides((*completed, own_folder)))
    added = {change.key: str(change.after) for change in completed if change.kind == "environment"}
    planned = plan(
        changed,
        name,
        root,
        ticket=ticket(changed, root, after=None, turn=waits),
        ray=ray,
        parent=Parent(run.id, "fix"),
        variables={**manifest.variables, **added},
    )
    return Rerun(run, planned, completed)


def complete_changes(run: Run, config: Config, changes: Sequence[Change]) -> tuple[Change, ...]:
    """Add the changes that these require. UsageError for invalid or ineffective changes.

    A variable that a config key sets becomes a change of that key: a run reads its config.
    """
    given = [
        replace(change, kind="config", key=key, before=config.get(key))
        if change.kind == "environment" and (key := ENVIRONMENT_KEYS.get(change.key))
        else change
        for change in changes
    ]
    completed = complete(config, given)
    if isinstance(completed, Refusal):
        raise UsageError(completed.reason)
    effective = tuple(c for c in completed if c.kind != "config" or c.after != c.before)
    if all(change.kind == "command" for change in effective):
        raise UsageError(f"run '{run.id}' already has these values")
    return effective


def check_rerun(run: Run, changes: Sequence[Change]) -> Rerun:
    """Plan the run and check it; UsageError if a check fails. Nothing is written."""
    rerun = plan_rerun(run, changes)
    planned, root, waiting = rerun.plan, run.path.parent, rerun.plan.ticket
    env = {**os.environ, **planned.variables}
    if planned.ray:
        env["RAY_ADDRESS"] = planned.ray
    earlier = ahead(waiting, root) if waiting else ()
    turn = waiting is not None and waiting.turn
    warnings = require_launchable(planned.config, root, ahead=earlier, waits=turn, env=env)
    if complaint := edited_complaint(run.id, run.read_manifest()):
        warnings = [*warnings, warn("edited", complaint)]
    return replace(rerun, warnings=tuple(warnings), before=tuple(_made_before(run, planned)))


def launch_rerun(rerun: Rerun) -> Run:
    """Launch the planned run. An active original is asked to stop once the new run is queued."""
    original = rerun.original
    if rerun.plan.ticket is None and not observed_state(original).has_ended:
        raise UsageError(f"run '{original.id}' has been resumed meanwhile. Apply the fix again")
    made = launch(rerun.plan.with_warnings(rerun.warnings))
    if not observed_state(original).has_ended:
        ask_stop(original, by="its fix")
    return made


def config_of(run: Run) -> Config:
    """The config that the run was launched with, under its own name."""
    run.require_config()
    if not run.config_file.is_file():
        raise UsageError(
            f"{run.config_file}: the run's config is missing, so the run cannot be launched again"
        )
    config = load_config(str(run.config_file), (), {})
    return replace(config, name=run.read_manifest().config_name or config.name)


def config_of_source(
    source: str, overrides: Sequence[str], root: Path
) -> tuple[Config, Run | None]:
    """Return the config of that name or path, else that of a run, and the run.

    A config of that name takes precedence, because run IDs often begin with the config's name. A
    run keeps the values in effect at its launch, so today's environment does not change them.
    """
    try:
        find_config(source)
    except UsageError as no_config:
        if not (names := run_ids(root)) or Path(source).suffix in (".yaml", ".yml"):
            raise no_config
        source = run_id_of(root, source)
        if not any(name.startswith(source) for name in names):
            raise unknown_name("run or config", source, [*config_names(), *names]) from no_config
        run = find_run(root, source)
        config = config_of(run)
        return config.with_overrides(overrides) if overrides else config, run
    return load_config(source, overrides), None


def require_launch_folder(run: Run) -> None:
    """Raise UsageError for a run of another folder, whose relative paths are invalid here.

    Also for a run that is not trusted.
    """
    require(run, executes=True)
    cwd = run.read_manifest().cwd
    if cwd and Path(cwd) != Path.cwd():
        raise UsageError(
            f"run '{run.id}' belongs to another working directory. Change to it first: cd {cwd}"
        )


def _stem(run: Run) -> str:
    """The beginning of the names of runs that derive from this run."""
    return f"{run.id[:85]}-"


def _made_before(run: Run, planned: LaunchPlan) -> Iterator[Run]:
    """Runs derived from ``run`` that differ from the planned one in name and folder only."""
    root = run.path.parent
    wanted = _launched_with(manifest_config(planned.config, planned.directory), planned.variables)
    names = [name for name in folder_names(root) if name.startswith(_stem(run))]
    for derived in (Run(root / name) for name in names):
        manifest = derived.read_full_manifest()
        values = _launched_with(manifest.config, manifest.variables)
        if manifest.parent == planned.parent and values == wanted:
            yield derived


def _launched_with(config: Settings, variables: Mapping[str, str]) -> str:
    """All values that were set, without the checkpoint folder, as one text."""
    folder_keys = {kind.checkpoint_key for kind in KINDS.values()}
    values = {
        key: setting.value
        for key, setting in config.items()
        if setting.is_chosen and key not in folder_keys
    }
    return json.dumps([values, dict(variables)], sort_keys=True, default=str)
