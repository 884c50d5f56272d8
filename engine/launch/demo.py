"""The tiny demo: make its data, train its model by SFT, then by GRPO.

Everything is made in the working folder: ``data/tiny``, ``checkpoints/grubrics-transfer``, runs.
"""

from __future__ import annotations

import subprocess
from importlib.util import find_spec
from pathlib import Path

from engine.base.errors import UsageError
from engine.checks.preflight import require_launchable
from engine.config.load import load_config
from engine.launch.launcher import launch, plan
from engine.launch.queueing import ahead, ticket
from engine.run.host.environment import install_command
from engine.run.host.programs import own_module
from engine.run.kinds import GRPO
from engine.run.run import Run

DATA_MODULE = "engine.data.tiny_world"
SFT_CONFIG, GRPO_CONFIG = "sft_tiny", "grpo_tiny"
_TRAINER_PACKAGES = ("torch", "ray", "verl", "transformers")


def require_trainer() -> None:
    """UsageError if the packages that train are not installed."""
    missing = [name for name in _TRAINER_PACKAGES if find_spec(name) is None]
    if missing:
        raise UsageError(
            f"the tiny demo trains, and {', '.join(missing)} is not installed: "
            f"{install_command('train')}"
        )


def make_demo_data() -> None:
    """Make data and model below ``data/tiny`` unless they are up to date.

    UsageError with the last line of the program if it fails.
    """
    done = subprocess.run(own_module(DATA_MODULE), capture_output=True, text=True, check=False)
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines() or ["no message"]
        raise UsageError(f"python -m {DATA_MODULE}: {lines[-1]}")


def launch_demo(runs: Path) -> tuple[Run, ...]:
    """Launch what is missing: SFT unless its model exists, and GRPO, which waits for it.

    Returns the runs in the order in which they train. UsageError if a preflight check fails.
    """
    grpo = load_config(GRPO_CONFIG, ())
    if Path(str(grpo.get(GRPO.model_key)), "config.json").is_file():
        require_launchable(grpo, runs)
        return (launch(plan(grpo, None, runs)),)
    sft = load_config(SFT_CONFIG, ())
    require_launchable(sft, runs)
    first = launch(plan(sft, None, runs))
    queued = ticket(grpo, runs, after=first.id, turn=False)
    assert queued is not None
    require_launchable(grpo, runs, ahead=ahead(queued, runs))
    return first, launch(plan(grpo, None, runs, queued))
