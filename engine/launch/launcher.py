"""From a checked recipe to a run that goes on without us."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine import jsonl
from engine.errors import UsageError
from engine.launch.recipe import Recipe
from engine.launch.steps import step_plan
from engine.records.environment import (
    environment_snapshot,
    fingerprint,
    git_snapshot,
    hardware_snapshot,
)
from engine.runs.events import log_event
from engine.runs.rundir import RUN_ID_VARIABLE, RunDir, check_id
from engine.runs.state import RunState, recorded_state, write_state

_HANDSHAKE_S = 20.0


@dataclass(frozen=True)
class LaunchPlan:
    """Everything a launch will do, so that it can be shown before it is done."""

    run_id: str
    directory: Path
    argv: tuple[str, ...]
    environment: Mapping[str, str]
    """What is added to this process's environment; secrets are inherited, never listed."""
    recipe: Recipe
    total_steps: int | None


def plan(recipe: Recipe, name: str | None = None, runs: Path = Path("runs")) -> LaunchPlan:
    """Plan a run of ``recipe``. Nothing is written. UsageError for a name that cannot be used."""
    run_id = check_id(name) if name else _free_id(runs, recipe.name)
    directory = runs / run_id
    if directory.exists():
        raise UsageError(f"run '{run_id}' exists already in {runs}; choose another --name")
    steps = step_plan(recipe)
    return LaunchPlan(
        run_id=run_id,
        directory=directory,
        argv=trainer_argv(recipe),
        environment={RUN_ID_VARIABLE: run_id},
        recipe=recipe,
        total_steps=steps.total if steps else None,
    )


def trainer_argv(recipe: Recipe) -> tuple[str, ...]:
    """The command a person could type to train the same without supervision."""
    module = f"engine.train.{recipe.kind}"
    return (sys.executable, "-m", module, "--config", str(recipe.path), *recipe.overrides)


def launch(launch_plan: LaunchPlan) -> RunDir:
    """Create the run directory and start its supervisor, detached from this process.

    The directory appears whole (manifest included) or not at all. UsageError when it cannot be
    written or the supervisor does not come up.
    """
    try:
        run = _create(launch_plan)
    except OSError as error:
        where = launch_plan.directory.parent
        raise UsageError(f"{where}: {error.strerror}; nothing was launched") from error
    start_supervisor(run)
    return run


def start_supervisor(run: RunDir) -> None:
    """Start the supervisor of the run's newest attempt and wait until it has taken over."""
    command = [sys.executable, "-m", "engine.runs.supervisor", str(run.path.resolve())]
    errors = run.path / "supervisor.log"
    with errors.open("ab") as log:
        # Returns at once: the supervisor detaches itself from the process started here.
        subprocess.run(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, check=False)
    deadline = time.monotonic() + _HANDSHAKE_S
    while time.monotonic() < deadline:
        state = recorded_state(run)
        if state is not None and (state.trainer is not None or state.has_ended):
            return
        time.sleep(0.02)
    write_state(run, RunState("failed", reason="the supervisor did not start", ended=time.time()))
    raise UsageError(f"{run.path}: the supervisor did not start; see {errors}")


def _create(launch_plan: LaunchPlan) -> RunDir:
    root = launch_plan.directory.parent
    root.mkdir(parents=True, exist_ok=True)
    staging = Path(tempfile.mkdtemp(prefix=".launch-", dir=root))
    try:
        staging.chmod(0o755)
        run = RunDir(staging)
        run.attempt(1).path.mkdir()
        jsonl.write_json(run.manifest, manifest(launch_plan))
        write_state(
            run,
            RunState("starting", heartbeat=time.time(), total_steps=launch_plan.total_steps),
        )
        log_event(run, "config", changes=_changes(launch_plan.recipe))
        staging.rename(launch_plan.directory)
    except BaseException:
        shutil.rmtree(staging, ignore_errors=True)
        raise
    return RunDir(launch_plan.directory)


def manifest(launch_plan: LaunchPlan) -> dict[str, Any]:
    """The self-description of a run, written before its first step."""
    recipe, now = launch_plan.recipe, time.time()
    return {
        "v": 1,
        "id": launch_plan.run_id,
        "name": launch_plan.run_id,
        "recipe": recipe.name,
        "config_path": str(recipe.path),
        "kind": recipe.kind,
        "description": recipe.get("grubrics.description"),
        "argv": list(launch_plan.argv),
        "cwd": str(Path.cwd()),
        "created": now,
        "config": {
            key: {"value": value, "origin": recipe.origins.get(key, "default")}
            for key, value in recipe.values.items()
        },
        "changes": _changes(recipe),
        "environment": environment_snapshot(),
        "git": git_snapshot(Path.cwd()),
        "hardware": hardware_snapshot(),
        "data": {str(path): fingerprint(path) for path in data_files(recipe) if path.is_file()},
        "seeds": {key: value for key, value in recipe.values.items() if key.endswith("seed")},
        "total_steps": launch_plan.total_steps,
        "checkpoint_dir": checkpoint_dir(recipe),
        "parent": None,
        "attempts": [{"number": 1, "started": now, "argv": list(launch_plan.argv)}],
    }


def data_files(recipe: Recipe) -> list[Path]:
    """The files a recipe trains and validates on."""
    keys = ("data.train_files", "data.val_files", "data.train_file", "data.val_file")
    values = [recipe.get(key) for key in keys]
    names = [name for value in values for name in (value if isinstance(value, list) else [value])]
    return [Path(name) for name in names if name]


def checkpoint_dir(recipe: Recipe) -> str:
    """Where the recipe's checkpoints go."""
    key = "trainer.default_local_dir" if recipe.kind == "grpo" else "training.output_dir"
    return str(recipe.get(key))


def _changes(recipe: Recipe) -> list[dict[str, Any]]:
    return [
        {"key": c.key, "before": c.before, "after": c.after, "origin": c.origin}
        for c in recipe.changes
    ]


def _free_id(runs: Path, name: str) -> str:
    stem = f"{name}-{time.strftime('%Y%m%d-%H%M%S')}"
    candidates = [stem, *(f"{stem}-{number}" for number in range(2, 100))]
    return next(c for c in candidates if not os.path.lexists(runs / c))
