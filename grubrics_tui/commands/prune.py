"""``grubrics-tui prune``: free checkpoints, and keep the runs."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from engine.base.errors import UsageError
from engine.base.quantities import format_size
from engine.run.run import Run, runs_root
from grubrics_tui.commands.shared import Command, Task, answer, confirmed, on_terminal, options, say
from grubrics_tui.commands.shared.completions import complete_run
from grubrics_tui.commands.shared.options import argument, flag, option
from grubrics_tui.commands.shared.trust import require_trust
from grubrics_tui.text.plans import format_pruning

if TYPE_CHECKING:
    from engine.run.checkpoints.pruning import Pruning


def prune(
    run: Annotated[
        list[str] | None,
        argument(
            "[RUN...]",
            "Full run IDs, no prefixes (default: all ended runs)",
            autocompletion=complete_run,
        ),
    ] = None,
    keep: Annotated[
        str, option("WHAT", "Checkpoints to keep: best (by validation), last, every=N")
    ] = "best,last",
    older: Annotated[
        str | None, option("AGE", "Only runs that ended longer ago, e.g. 7d or 12h")
    ] = None,
    dry_run: Annotated[
        bool, flag("Print what would be freed; delete nothing", "--dry-run")
    ] = False,
    yes: Annotated[bool, flag("Skip the confirmation", "--yes")] = False,
    trust: options.TrustOption = False,
    runs: options.RunsOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Free checkpoints of ended runs, and keep the runs.

    A checkpoint that another run, an ablation or an evaluation uses stays, and so does the model in
    final/. Asks for confirmation; without a terminal or with --json, deletes only with --yes.
    """
    from engine.measure.ablations.plan import base_files
    from engine.run.checkpoints.pruning import parse_keep
    from engine.supervise.housekeeping import plan_prunings, prune_runs

    root, wanted = runs_root(runs), parse_keep(keep)
    chosen = _chosen(root, run or (), _parse_age(older))
    for run_dir in chosen if run else ():
        require_trust(run_dir, trust)
    prunings = plan_prunings(chosen, root, wanted, base_files())
    freed = [pruning for pruning in prunings if pruning.entries]
    total = sum(pruning.bytes for pruning in freed)
    if not as_json:
        for pruning in prunings if run else freed:
            say(format_pruning(pruning))
        say(f"total {format_size(total)}")
    is_asked = bool(freed) and not dry_run
    can_ask = is_asked and not as_json and on_terminal()
    question = f"Permanently delete these checkpoints of {len(freed)} runs?"
    is_confirmed = is_asked and (yes or (can_ask and confirmed(question)))
    deleted = sum(prune_runs(freed, root, base_files())) if is_confirmed else 0
    shown = {"prunings": [each.to_json() for each in prunings], "freed_bytes": deleted}
    answer(shown, _outcome(freed, dry_run, is_confirmed, deleted), as_json)
    raise typer.Exit(1 if is_asked and not is_confirmed else 0)


def _chosen(root: Path, names: Sequence[str], age_s: float) -> list[Run]:
    """The named runs, else all that have ended; without those that ended too recently."""
    from engine.run.registry import list_runs
    from engine.run.state import observed_state
    from engine.supervise.housekeeping import exact_run

    if names:
        chosen = [exact_run(root, name) for name in dict.fromkeys(names)]
        states = [observed_state(run) for run in chosen]
    else:
        listed = [info for info in list_runs(root) if info.state.has_ended]
        chosen = [Run(root / info.id) for info in listed]
        states = [info.state for info in listed]
    latest = time.time() - age_s
    return [
        run
        for run, state in zip(chosen, states, strict=True)
        if not age_s or (state.ended or state.heartbeat or latest) < latest
    ]


def _parse_age(text: str | None) -> float:
    from engine.base.query import parse_span

    if text is None:
        return 0.0
    span = parse_span(text)
    if span is None:
        raise UsageError(f"--older {text}: not an age; write e.g. 7d or 12h")
    return span


def _outcome(freed: Sequence[Pruning], dry_run: bool, is_confirmed: bool, deleted: int) -> str:
    if not freed:
        return "nothing to free"
    if dry_run:
        return "dry run: nothing was deleted"
    if not is_confirmed:
        return "nothing was deleted. To skip the confirmation, add --yes"
    return f"deleted, {format_size(deleted)} freed"


COMMAND = Command(prune, Task.KEEP)
