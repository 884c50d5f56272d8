"""Repeat the preflight checks of a queued run just before it starts.

``python -m engine.checks.gate TRAINER_COMMAND...`` runs in the environment of the run. If the
run may start, the process becomes the trainer; otherwise it prints one line and exits with 2.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from engine.base.errors import UsageError
from engine.checks.preflight import require_launchable
from engine.config.env_file import load_env_file
from engine.config.load import load_config
from engine.run.host.surroundings import changed_files, surroundings
from engine.run.run import ATTEMPT_DIR_VARIABLE, Run


def require_startable(run: Run) -> None:
    """Check the config in the run directory. Raises UsageError if the run cannot start."""
    env = dict(os.environ)
    load_env_file(env)
    config = load_config(str(run.config_file), (), {})
    manifest = run.read_manifest()
    if manifest.ray:
        env["RAY_ADDRESS"] = manifest.ray
    now = surroundings(Path.cwd(), config.path, map(Path, manifest.data))
    changed = changed_files(manifest.data, now.data)
    if changed:
        raise UsageError(f"{', '.join(changed)} changed while the run was queued. Launch it again")
    require_launchable(config, run.path.parent, ahead=[run.id], env=env)


def main(command: Sequence[str]) -> None:
    run = Run(Path(os.environ[ATTEMPT_DIR_VARIABLE]).parent)
    try:
        require_startable(run)
    except UsageError as error:
        # Formatted as the last line of an exception: the run's final state quotes that.
        print(f"UsageError: not started: {error}", flush=True)
        sys.exit(2)
    os.execv(command[0], list(command))


if __name__ == "__main__":
    main(sys.argv[1:])
