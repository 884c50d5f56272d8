"""``grubrics-tui stop``: stop a run."""

from __future__ import annotations

from typing import Annotated

import typer

from engine.base.errors import UsageError
from engine.run.run import Run, find_run, runs_root
from grubrics_tui.commands.shared import Command, Task, answer, confirmed, on_terminal, options, say
from grubrics_tui.commands.shared.options import flag
from grubrics_tui.commands.shared.trust import require_trust


def stop(
    run: options.RunArgument,
    after_checkpoint: Annotated[
        bool, flag("Stop after the next checkpoint is saved", "--after-checkpoint")
    ] = False,
    detach: Annotated[bool, flag("Adopted run: leave its program running", "--detach")] = False,
    yes: Annotated[bool, flag("Adopted run: end its program without a question", "--yes")] = False,
    trust: options.TrustOption = False,
    runs: options.RunsOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Stop a run and wait until its processes have exited.

    Asks before it ends a program that was launched elsewhere. Exits with 1 if some are still
    running.
    """
    from engine.supervise.hosts import find_host
    from engine.supervise.stopping import stop_run

    chosen = find_run(runs_root(runs), run)
    require_trust(chosen, trust, executes=find_host(chosen).may_have_left())
    if not (detach or yes or _is_confirmed(chosen, can_ask=not as_json and on_terminal())):
        say("nothing was stopped")
        raise typer.Exit(1)
    done = stop_run(chosen, after_checkpoint=after_checkpoint, detach=detach)
    answer(done, done.message, as_json)
    raise typer.Exit(0 if done.ended or after_checkpoint else 1)


def _is_confirmed(run: Run, *, can_ask: bool) -> bool:
    """Whether the run may be stopped. UsageError where an adopted program is not to be ended
    without a question, and nobody can be asked."""
    from engine.supervise.hosts import find_host

    host = find_host(run)
    host.require_stoppable()
    if not (running := host.find_running()):
        return True
    question = f"{running}, launched elsewhere"
    if not can_ask:
        raise UsageError(
            f"run '{run.id}' is adopted: a stop ends {question}. To do so, add --yes; to leave "
            "it running, --detach"
        )
    return confirmed(f"End {question}?")


COMMAND = Command(stop, Task.RUN)
