"""``grubrics-tui reap``: list or kill what ended runs left running."""

from __future__ import annotations

from typing import Annotated

import typer

from engine.runs.rundir import RunDir, runs_root
from grubrics_tui.commands.shared.command import Command, Task
from grubrics_tui.commands.shared.options import JsonOption, RunsOption, TrustOption
from grubrics_tui.commands.shared.output import answer
from grubrics_tui.commands.shared.trust import require_trust


def reap(
    yes: Annotated[
        bool, typer.Option("--yes", help="Kill the processes and delete the Ray directories listed")
    ] = False,
    trust: TrustOption = False,
    runs: RunsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show processes and Ray directories that ended runs left behind; --yes ends exactly these."""
    from engine.supervise import private_ray
    from engine.supervise.reaper import leftovers
    from engine.supervise.reaper import reap as end

    root = runs_root(runs)
    found = leftovers(root)
    if yes and trust:
        for directory in {one.directory for one in found}:
            require_trust(RunDir(directory), trust)
    ended = end(found) if yes else []
    holding = private_ray.leftovers(root)
    directories = [str(private_ray.directory(attempt)) for attempt in holding]
    if yes:
        for attempt in holding:
            private_ray.remove(attempt)
    lines = [
        f"{one.process.pid:>8}  {one.run:<36} {one.rss / 2**20:8.0f} MiB"
        f"  gpu {one.gpu_bytes / 2**20:.0f} MiB  ports {list(one.ports)}  {one.reason}"
        for one in found
    ] + [f"          Ray's directory {directory}" for directory in directories]
    verdict = f"ended {len(ended)}" if yes else f"{len(lines)} left behind; --yes ends them"
    text = "\n".join([*lines, verdict]) if lines else "nothing is left behind"
    value = {"leftovers": [one.to_json() for one in found], "ended": ended}
    answer({**value, "directories": directories}, text, as_json)


COMMAND = Command(reap, Task.RUN)
