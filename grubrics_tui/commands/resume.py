"""``grubrics-tui resume``: continue a run from a checkpoint."""

from __future__ import annotations

from typing import Annotated

import typer

from engine.base.text import format_command
from engine.run.run import runs_root
from engine.run.state import observed_state
from grubrics_tui.commands.shared import Command, Task, answer, options, warn
from grubrics_tui.commands.shared.completions import complete_run
from grubrics_tui.commands.shared.follow import followed
from grubrics_tui.commands.shared.options import argument, flag, option
from grubrics_tui.commands.shared.run_text import outcome
from grubrics_tui.commands.shared.trust import require_run_code_trust


def resume(
    run: Annotated[
        str,
        argument(
            "RUN|CHECKPOINT",
            "Run ID, unique prefix, or directory; or a checkpoint, FOLDER/global_step_N",
            autocompletion=complete_run,
        ),
    ],
    from_step: Annotated[
        int | None,
        option(
            "STEP", "Checkpoint step to resume from (default: the latest complete one)", "--from"
        ),
    ] = None,
    wait: Annotated[bool, flag("Print progress until the run ends")] = False,
    dry_run: Annotated[bool, flag("Print the command; resume nothing")] = False,
    trust: options.TrustOption = False,
    runs: options.RunsOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Resume a run from its last complete checkpoint.

    With --wait, exits with 1 if the run does not finish.
    """
    from engine.launch.resume import find_resumable, resume_plan
    from engine.launch.resume import resume as resume_run

    argv = None
    chosen, from_step = find_resumable(runs_root(runs), run, from_step)
    require_run_code_trust(chosen, trust)
    if dry_run:
        resumed, argv = resume_plan(chosen, from_step)
    else:
        resumed = resume_run(chosen, from_step)
    warn(resumed.warnings)
    value = {"run": chosen.id, "from_step": resumed.step, "attempt": resumed.attempt}
    warnings = list(resumed.warnings)
    if argv is not None:
        text = (
            f"$ {format_command(argv)}\nattempt {resumed.attempt} of {chosen.id} from step "
            f"{resumed.step}\ndry run: nothing was resumed"
        )
        answer({**value, "argv": argv, "state": None, "warnings": warnings}, text, as_json)
        return
    state = followed(chosen, as_json) if wait else observed_state(chosen)
    text = f"from step {resumed.step}: {outcome(chosen, state)}"
    answer({**value, "state": state.word, "warnings": warnings}, text, as_json)
    if wait and not state.went_well:
        raise typer.Exit(1)


COMMAND = Command(resume, Task.RUN)
