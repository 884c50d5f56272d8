"""``grubrics-tui delete``: delete ended runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from engine.base.errors import UsageError
from engine.base.quantities import format_size
from engine.run.run import archive_root, runs_root
from grubrics_tui.commands.shared import Command, Task, answer, confirmed, on_terminal, options, say
from grubrics_tui.commands.shared.completions import complete_run
from grubrics_tui.commands.shared.options import argument, flag
from grubrics_tui.commands.shared.trust import require_trust

if TYPE_CHECKING:
    from engine.supervise.housekeeping import Deletion


def delete(
    run: Annotated[
        list[str], argument("RUN...", "Full run IDs, no prefixes", autocompletion=complete_run)
    ],
    checkpoints: Annotated[
        bool, flag("Also delete checkpoints that no other run uses", "--checkpoints")
    ] = False,
    archived: Annotated[bool, flag("Delete archived runs", "--archived")] = False,
    yes: Annotated[bool, flag("Skip the confirmation", "--yes")] = False,
    trust: options.TrustOption = False,
    runs: options.RunsOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Delete ended runs after showing the space this frees.

    Asks for confirmation; without a terminal or with --json, deletes only with --yes.
    """
    from engine.supervise import housekeeping
    from engine.supervise.hosts import find_host

    root = runs_root(runs)
    source = archive_root(root) if archived else root
    housekeeping.finish_deletions(root)
    exact = [housekeeping.exact_run(source, name) for name in dict.fromkeys(run)]
    for run_dir in exact:
        require_trust(run_dir, trust, executes=find_host(run_dir).may_have_left())
    plans = [housekeeping.plan_deletion(run_dir, root) for run_dir in exact]
    if checkpoints:
        for plan in plans:
            if reason := plan.checkpoints.kept_because:
                folder = plan.checkpoints.folder
                raise UsageError(f"{folder} cannot be deleted with run '{plan.run.id}': {reason}")
    total = sum(plan.files_bytes + (plan.checkpoints.freed if checkpoints else 0) for plan in plans)
    lines = [*(_format_plan(plan, checkpoints) for plan in plans), f"total {format_size(total)}"]
    if not as_json:
        say("\n".join(lines))
    runs_text = "this run" if len(plans) == 1 else f"these {len(plans)} runs"
    can_ask = not as_json and on_terminal()
    is_confirmed = yes or (can_ask and confirmed(f"Permanently delete {runs_text}?"))
    freed = (
        sum(housekeeping.delete(p, checkpoints=checkpoints) for p in plans) if is_confirmed else 0
    )
    shown = {
        "deletions": [plan.to_json() for plan in plans],
        "deleted": [plan.run.id for plan in plans] if is_confirmed else [],
        "freed_bytes": freed,
    }
    text = "nothing was deleted. To skip the confirmation, add --yes"
    if is_confirmed:
        text = f"deleted, {format_size(freed)} freed"
    answer(shown, text, as_json)
    raise typer.Exit(0 if is_confirmed else 1)


def _format_plan(plan: Deletion, checkpoints: bool) -> str:
    saved = plan.checkpoints
    text = f"{plan.run.id:<36} files {format_size(plan.files_bytes)}"
    if saved.moved:
        return f"{text}   checkpoints are kept: a later run moved them to {saved.moved}"
    if not saved.bytes:
        return f"{text}   no checkpoints"
    reason = saved.kept_because or "delete them with --checkpoints"
    note = "" if checkpoints else f" (kept: {reason})"
    return f"{text}   checkpoints {format_size(saved.bytes)} in {saved.folder}{note}"


COMMAND = Command(delete, Task.KEEP)
