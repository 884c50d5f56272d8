"""``grubrics-tui archive``: hide ended runs from the list, or restore them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from engine.base.errors import UsageError
from engine.runs.rundir import RunDir, archive_root, find_run, run_ids, runs_root
from grubrics_tui.commands.shared.command import Command, Task
from grubrics_tui.commands.shared.options import JsonOption, RunsOption, TrustOption
from grubrics_tui.commands.shared.output import answer
from grubrics_tui.commands.shared.trust import require_trust


def archive(
    run: Annotated[
        list[str], typer.Argument(metavar="RUN...", help="Ids of runs, or starts of them")
    ],
    undo: Annotated[bool, typer.Option("--undo", help="Bring them back into the list")] = False,
    trust: TrustOption = False,
    runs: RunsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Move ended runs out of the list, into .archive in the runs folder; nothing is lost."""
    from engine.supervise import housekeeping
    from engine.supervise.ray_job import has_open_jobs

    root = runs_root(runs)
    found = [_archived(root, name) if undo else find_run(root, name) for name in dict.fromkeys(run)]
    for one in found:
        require_trust(one, trust, executes=has_open_jobs(one))
    if not undo:
        for one in found:
            housekeeping.require_settled(one)
    move = housekeeping.unarchive if undo else housekeeping.archive
    moved = [move(one) for one in found]
    verb = "brought back" if undo else "archived"
    text = "\n".join(f"{verb} {one.id}  {one.path}" for one in moved)
    answer({"runs": [{"id": one.id, "dir": str(one.path)} for one in moved]}, text, as_json)


def _archived(root: Path, name: str) -> RunDir:
    """UsageError that says of a run in the list that it is there."""
    try:
        return find_run(archive_root(root), name)
    except UsageError as error:
        if listed := [one for one in run_ids(root) if name and one.startswith(name)]:
            raise UsageError(f"run '{listed[0]}' is not archived: it is in the list") from error
        if not run_ids(archive_root(root)):
            raise UsageError(f"run '{name}': no run is archived") from error
        raise UsageError(f"the archive: {error}") from error


COMMAND = Command(archive, Task.KEEP)
