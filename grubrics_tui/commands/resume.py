"""``grubrics-tui resume``: continue a run from a checkpoint."""

from __future__ import annotations

import shlex
from typing import Annotated

import typer

from engine.runs.rundir import RunDir, find_run, runs_root
from engine.runs.state import observed_state
from grubrics_tui.commands.shared.command import Command, Task
from grubrics_tui.commands.shared.follow import followed
from grubrics_tui.commands.shared.options import JsonOption, RunArgument, RunsOption, TrustOption
from grubrics_tui.commands.shared.output import answer, warn
from grubrics_tui.commands.shared.run_text import outcome
from grubrics_tui.commands.shared.trust import require_run_code_trust


def resume(
    run: RunArgument,
    from_step: Annotated[
        int | None,
        typer.Option(
            "--from",
            metavar="STEP",
            help="Checkpoint step to resume from (default: the latest complete one)",
        ),
    ] = None,
    wait: Annotated[bool, typer.Option(help="Print progress until the run ends")] = False,
    dry_run: Annotated[bool, typer.Option(help="Print the command; resume nothing")] = False,
    trust: TrustOption = False,
    runs: RunsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Resume a run from its last complete checkpoint.

    With --wait, exits with 1 if the run does not finish.
    """
    from engine.launch.resume import resume as resume_run

    found = find_run(runs_root(runs), run)
    require_run_code_trust(found, trust)
    if dry_run:
        _show_resume(found, from_step, as_json)
        return
    resumed = resume_run(found, from_step)
    warn(resumed.warnings)
    state = followed(found, as_json) if wait else observed_state(found)
    value = {
        "run": found.id,
        "from_step": resumed.step,
        "attempt": resumed.attempt,
        "state": state.state,
        "warnings": list(resumed.warnings),
    }
    answer(value, f"from step {resumed.step}: {outcome(found, state)}", as_json)
    if wait and not state.went_well:
        raise typer.Exit(1)


def _show_resume(run: RunDir, from_step: int | None, as_json: bool) -> None:
    from engine.launch.resume import resume_plan

    planned, argv = resume_plan(run, from_step)
    warn(planned.warnings)
    value = {"run": run.id, "from_step": planned.step, "attempt": planned.attempt, "argv": argv}
    more = {"state": None, "warnings": list(planned.warnings)}
    text = (
        f"$ {shlex.join(argv)}\nattempt {planned.attempt} of {run.id} from step {planned.step}\n"
        "dry run: nothing was resumed"
    )
    answer({**value, **more}, text, as_json)


COMMAND = Command(resume, Task.RUN)
