"""``grubrics-tui archive``: hide ended runs from the list, or restore them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from engine.base.errors import UsageError
from engine.run.run import Run, archive_root, find_run, run_ids, runs_root
from grubrics_tui.commands.shared import Command, Task, answer, argument, flag, options
from grubrics_tui.commands.shared.completions import complete_run
from grubrics_tui.commands.shared.trust import require_trust


def archive(
    run: Annotated[
        list[str],
        argument("RUN...", "Run IDs, unique prefixes, directories", autocompletion=complete_run),
    ],
    undo: Annotated[bool, flag("Restore archived runs to the list", "--undo")] = False,
    trust: options.TrustOption = False,
    runs: options.RunsOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Archive ended runs, or restore them with --undo.

    Moves their directories to .archive in the directory of runs; deletes nothing.
    """
    from engine.supervise import housekeeping
    from engine.supervise.hosts import find_host

    root = runs_root(runs)
    ended = [_archived(root, name) if undo else find_run(root, name) for name in dict.fromkeys(run)]
    for run_dir in ended:
        require_trust(run_dir, trust, executes=find_host(run_dir).may_have_left())
    if not undo:
        for run_dir in ended:
            housekeeping.require_ended(run_dir)
    move = housekeeping.unarchive if undo else housekeeping.archive
    moved = [move(run_dir) for run_dir in ended]
    verb = "restored" if undo else "archived"
    text = "\n".join(f"{verb} {run_dir.id}  {run_dir.path}" for run_dir in moved)
    answer(
        {"runs": [{"id": run_dir.id, "dir": str(run_dir.path)} for run_dir in moved]}, text, as_json
    )


def _archived(root: Path, name: str) -> Run:
    """Return the archived run. UsageError if it is not archived, or there is none."""
    try:
        return find_run(archive_root(root), name)
    except UsageError as error:
        if listed := [run_id for run_id in run_ids(root) if name and run_id.startswith(name)]:
            raise UsageError(f"run '{listed[0]}' is not archived") from error
        if not run_ids(archive_root(root)):
            raise UsageError(f"run '{name}' is not archived: the archive is empty") from error
        raise UsageError(f"in the archive: {error}") from error


COMMAND = Command(archive, Task.KEEP)
