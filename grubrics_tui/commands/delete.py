"""``grubrics-tui delete``: delete ended runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from engine.base.errors import UsageError
from engine.runs.rundir import archive_root, runs_root
from grubrics_tui.commands.shared.command import Command, Task
from grubrics_tui.commands.shared.options import JsonOption, RunsOption, TrustOption
from grubrics_tui.commands.shared.output import answer, on_terminal, say
from grubrics_tui.commands.shared.trust import require_trust
from grubrics_tui.text.formats import memory

if TYPE_CHECKING:
    from engine.supervise.housekeeping import Deletion


def delete(
    run: Annotated[list[str], typer.Argument(metavar="RUN...", help="Whole ids of runs")],
    checkpoints: Annotated[
        bool, typer.Option("--checkpoints", help="Delete checkpoints too that no other run uses")
    ] = False,
    archived: Annotated[
        bool, typer.Option("--archived", help="Delete runs of the archive")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Skip the confirmation")] = False,
    trust: TrustOption = False,
    runs: RunsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show what deleting ended runs would free, and delete them after a yes."""
    from engine.supervise import housekeeping
    from engine.supervise.ray_job import has_open_jobs

    root = runs_root(runs)
    source = archive_root(root) if archived else root
    housekeeping.finish_deletions(root)
    exact = [housekeeping.exact_run(source, name) for name in dict.fromkeys(run)]
    for one in exact:
        require_trust(one, trust, executes=has_open_jobs(one))
    plans = [housekeeping.plan_deletion(one, root) for one in exact]
    if checkpoints and (kept := next((p for p in plans if p.checkpoints.kept_because), None)):
        own = kept.checkpoints
        raise UsageError(f"{own.folder}: not deleted with '{kept.run.id}': {own.kept_because}")
    total = sum(_freed(plan, checkpoints) for plan in plans)
    lines = [*(_line(plan, checkpoints) for plan in plans), f"in all {memory(total)}"]
    if not as_json:
        say("\n".join(lines))
    go_on = yes or (not as_json and _agreed(len(plans)))
    freed = sum(housekeeping.delete(p, checkpoints=checkpoints) for p in plans) if go_on else 0
    shown = {
        "deletions": [plan.to_json() for plan in plans],
        "deleted": [plan.run.id for plan in plans] if go_on else [],
        "freed_bytes": freed,
    }
    told = f"deleted, {memory(freed)} freed" if go_on else "nothing was deleted; --yes deletes"
    answer(shown, told, as_json)
    raise typer.Exit(0 if go_on else 1)


def _agreed(count: int) -> bool:
    """A person's yes; nobody's is a no."""
    if not on_terminal():
        return False
    what = "this run" if count == 1 else f"these {count} runs"
    return input(f"Delete {what} for good? [y/N] ").strip().lower() in ("y", "yes")


def _freed(plan: Deletion, checkpoints: bool) -> int:
    return plan.files_bytes + (plan.checkpoints.freed if checkpoints else 0)


def _line(plan: Deletion, checkpoints: bool) -> str:
    own = plan.checkpoints
    text = f"{plan.run.id:<36} files {memory(plan.files_bytes)}"
    if own.moved:
        return f"{text}   its checkpoints stay: a later run moved them to {own.moved}"
    if not own.bytes:
        return f"{text}   no checkpoints of its own"
    fate = "" if checkpoints else f" (stay: {own.kept_because or '--checkpoints deletes them'})"
    return f"{text}   checkpoints {memory(own.bytes)} in {own.folder}{fate}"


COMMAND = Command(delete, Task.KEEP)
