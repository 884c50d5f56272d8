"""``grubrics-tui fix``: relaunch a run with a suggested fix."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from engine.base.errors import UsageError
from engine.runs.rundir import RunDir, find_run, runs_root
from engine.runs.state import observed_state
from grubrics_tui.commands.shared.command import Command, Task
from grubrics_tui.commands.shared.follow import followed
from grubrics_tui.commands.shared.options import JsonOption, RunArgument, RunsOption, TrustOption
from grubrics_tui.commands.shared.output import answer, say
from grubrics_tui.commands.shared.trust import require_run_code_trust
from grubrics_tui.drawing.changes import change_json, child_lines
from grubrics_tui.drawing.changes import told as told_of

if TYPE_CHECKING:
    from engine.findings.finding import Remedy


def fix(
    run: RunArgument,
    number: Annotated[int, typer.Option(help="Which remedy, as diagnose numbers them")] = 1,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would change")] = False,
    wait: Annotated[bool, typer.Option(help="Follow the new run to its end")] = False,
    trust: TrustOption = False,
    runs: RunsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Launch the run again as its own child, with a remedy of its first curable finding.

    Everything the remedy touches moves with it. A run that still goes on is asked to stop.
    """
    from engine.launch.child import checked_child, launch_checked

    sick = find_run(runs_root(runs), run)
    require_run_code_trust(sick, trust)
    chosen = _chosen(sick, number)
    planned = checked_child(sick, chosen.changes)
    told: dict[str, Any] = {
        "parent": sick.id,
        "remedy": chosen.title,
        "changes": [change_json(one) for one in planned.changes],
        "checkpoint_dir": planned.weights,
        "applied_before": [one.id for one in planned.before],
        "warnings": [f"{one.id}: {one.message}" for one in planned.warnings],
    }
    if not as_json:
        say("\n".join([chosen.title, *(f"  {told_of(one)}" for one in planned.changes)]))
        say("\n".join(child_lines(planned)))
    if dry_run:
        answer({**told, "run": None}, "dry run: nothing was launched", as_json)
        return
    child = launch_checked(sick, planned)
    state = followed(child, as_json) if wait else observed_state(child)
    more = {"run": child.id, "dir": str(child.path), "state": state.state, "reason": state.reason}
    answer({**told, **more}, f"{child.id}  {state.state}", as_json)
    if wait and not state.went_well:
        raise typer.Exit(1)


def _chosen(run: RunDir, number: int) -> Remedy:
    from engine.doctor.diagnose import diagnose_run
    from engine.findings.finding import launchable

    found = launchable(diagnose_run(run))
    if not found:
        raise UsageError(f"run '{run.id}': no finding has a remedy that changes its recipe")
    if not 1 <= number <= len(found):
        listed = "; ".join(f"{place} {one.title}" for place, one in enumerate(found, start=1))
        raise UsageError(f"--number {number}: the remedies of '{run.id}' are: {listed}")
    return found[number - 1]


COMMAND = Command(fix, Task.DIAGNOSE, aliases=("remedy",))
