"""``grubrics-tui reap``: list or kill what ended runs left running."""

from __future__ import annotations

from typing import Annotated

from engine.base.quantities import format_count, format_size
from engine.base.tables import aligned_lines
from engine.run.run import Run, runs_root
from grubrics_tui.commands.shared import Command, Task, answer, flag, options
from grubrics_tui.commands.shared.trust import require_trust


def reap(
    yes: Annotated[
        bool, flag("Kill the listed processes and delete the listed Ray directories", "--yes")
    ] = False,
    trust: options.TrustOption = False,
    runs: options.RunsOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """List orphaned processes of ended runs; --yes kills them.

    Also lists, and deletes with --yes, the Ray session directories of ended runs.
    """
    from engine.supervise import private_ray
    from engine.supervise.reaper import find_orphans
    from engine.supervise.reaper import reap as end

    root = runs_root(runs)
    orphans = find_orphans(root)
    if yes and trust:
        for directory in {orphan.directory for orphan in orphans}:
            require_trust(Run(directory), trust)
    ended = end(orphans) if yes else []
    holding = private_ray.find_orphans(root)
    directories = [str(private_ray.directory(attempt)) for attempt in holding]
    if yes:
        for attempt in holding:
            private_ray.remove(attempt)
    rows = [
        (str(orphan.process.pid), orphan.run, format_size(orphan.rss),
         f"gpu {format_size(orphan.gpu_bytes)}", f"ports {list(orphan.ports)}", orphan.reason)
        for orphan in orphans
    ]  # fmt: skip
    lines = [*aligned_lines(rows), *(f"Ray directory {directory}" for directory in directories)]
    summary = f"{format_count(len(lines), 'orphan')}. Kill and delete: grubrics-tui reap --yes"
    if yes:
        summary = f"killed {format_count(len(ended), 'process', plural='processes')}"
    text = "\n".join([*lines, summary]) if lines else "no orphaned processes"
    value = {"orphans": [orphan.to_json() for orphan in orphans], "ended": ended}
    answer({**value, "directories": directories}, text, as_json)


COMMAND = Command(reap, Task.RUN)
