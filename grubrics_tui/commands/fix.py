"""``grubrics-tui fix``: relaunch a run with a suggested fix."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from engine.base.errors import UsageError
from engine.run.run import Run, find_run, runs_root
from engine.run.state import observed_state
from grubrics_tui.commands.shared import Command, Task, answer, flag, option, options, say
from grubrics_tui.commands.shared.finding_text import say_changes
from grubrics_tui.commands.shared.follow import followed
from grubrics_tui.commands.shared.trust import require_run_code_trust
from grubrics_tui.text.plans import format_rerun

if TYPE_CHECKING:
    from engine.run.finding import Fix


def fix(
    run: options.RunArgument,
    number: Annotated[int, option("N", "Number of the fix, as printed by diagnose")] = 1,
    dry_run: Annotated[bool, flag("Print the changes; launch nothing", "--dry-run")] = False,
    wait: Annotated[bool, flag("Print progress until the new run ends")] = False,
    trust: options.TrustOption = False,
    runs: options.RunsOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Relaunch a run with a suggested fix applied.

    Dependent values are adjusted too. A run that is still active is stopped once the new one is
    queued. A run without a finding above info needs no fix: exit code 0. With --wait, exits with 1
    if the new run does not finish.
    """
    from engine.launch.rerun import check_rerun, launch_rerun

    original = find_run(runs_root(runs), run)
    original.require_config()
    require_run_code_trust(original, trust)
    chosen = _chosen(original, number)
    if chosen is None:
        text = f"nothing to fix: run '{original.id}' has no finding above info"
        answer({"parent": original.id, "fix": None, "changes": [], "run": None}, text, as_json)
        return
    planned = check_rerun(original, chosen.changes)
    value: dict[str, Any] = {
        "parent": original.id,
        "fix": chosen.title,
        "changes": [change.to_json() for change in planned.changes],
        "checkpoint_dir": planned.weights,
        "applied_before": [earlier.id for earlier in planned.before],
        "warnings": [f"{check.id}: {check.message}" for check in planned.warnings],
    }
    if not as_json:
        say_changes(chosen.title, planned.changes)
        say("\n".join(format_rerun(planned)))
    if dry_run:
        answer({**value, "run": None}, "dry run: nothing was launched", as_json)
        return
    derived = launch_rerun(planned)
    state = followed(derived, as_json) if wait else observed_state(derived)
    value |= {"run": derived.id, "dir": str(derived.path)}
    value |= {"state": state.word, "reason": state.reason}
    answer(value, f"{derived.id}  {state.word}", as_json)
    if wait and not state.went_well:
        raise typer.Exit(1)


def _chosen(run: Run, number: int) -> Fix | None:
    """Return the fix, or None if there is nothing to fix."""
    from engine.doctor.diagnose import diagnose_run
    from engine.run.finding import launchable

    findings = diagnose_run(run)
    fixes = launchable(findings)
    if not fixes:
        if not any(finding.severity.is_alert for finding in findings):
            return None
        raise UsageError(
            f"run '{run.id}' has no fix that can be applied. For advice: "
            f"grubrics-tui diagnose {run.id}"
        )
    if not 1 <= number <= len(fixes):
        listed = "; ".join(f"{n} {fix.title}" for n, fix in enumerate(fixes, start=1))
        raise UsageError(f"--number {number}: run '{run.id}' has these fixes: {listed}")
    return fixes[number - 1]


COMMAND = Command(fix, Task.DIAGNOSE)
