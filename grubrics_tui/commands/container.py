"""``grubrics-tui container``: print how to launch a config in a container."""

from __future__ import annotations

import os
import shutil
from typing import Annotated

from engine.base.errors import UsageError, unknown_name
from engine.run.run import runs_root
from grubrics_tui.commands.shared import Command, Task, answer, flag, option, options, warn
from grubrics_tui.commands.shared.trust import require_folder_trust


def container(
    config: options.ConfigArgument,
    overrides: options.OverridesArgument = None,
    engine: Annotated[str, option("NAME", "docker or apptainer")] = "docker",
    image: Annotated[
        str | None, option("IMAGE", "Your image (default: built from the exact pins)")
    ] = None,
    shm: Annotated[str, option("SIZE", "Shared memory for Ray and NCCL; docker only")] = "16g",
    only_print: Annotated[
        bool, flag("Only print the commands, as without this option", "--print")
    ] = False,
    runs: options.RunsOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Print the commands that launch a config in a container.

    Nothing is started. The project, runs, checkpoints, models and data are mounted at their own
    paths. Keys are not printed: .env is in the project, and variables are passed by their names.
    """
    from engine.config.load import load_config
    from engine.launch.container import ENGINES, format_container, plan_container

    chosen = next((known for known in ENGINES if known == engine), None)
    if chosen is None:
        raise unknown_name("engine", engine, ENGINES)
    if not shm[:-1].isdecimal() or shm[-1:] not in tuple("bkmg"):
        raise UsageError(f"--shm {shm}: write a size such as 16g or 512m")
    root, words = runs_root(runs), [config, *(overrides or [])]
    loaded = load_config(config, overrides or [])
    require_folder_trust(loaded.path, trust=False)
    if runs is not None:
        words += ["--runs", str(root.absolute())]
    planned = plan_container(loaded, words, root, os.environ, engine=chosen, image=image, shm=shm)
    if shutil.which(engine) is None:
        warn([f"{engine} is not on the PATH of this machine"])
    answer(planned, format_container(planned), as_json)


COMMAND = Command(container, Task.RUN)
