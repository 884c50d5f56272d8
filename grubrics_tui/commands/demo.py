"""``grubrics-tui demo``: train the tiny demo."""

from __future__ import annotations

from typing import Annotated

import typer

from engine.run.run import runs_root
from grubrics_tui.commands.shared import Command, Task, answer, flag, options, say
from grubrics_tui.commands.shared.follow import followed
from grubrics_tui.commands.shared.run_text import outcome


def demo(
    wait: Annotated[bool, flag("Print progress until the last run ends", "--wait")] = False,
    runs: options.RunsOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Train the tiny demo in this folder: data, SFT, GRPO.

    Needs no GPU, network or API key; takes about four minutes on two idle cores. Reuses
    existing data and an existing SFT model. With --wait, exits with 1 if a run does not finish.
    """
    from engine.launch.demo import launch_demo, make_demo_data, require_trainer

    require_trainer()
    if not as_json:
        say("generating data/tiny ...", flush=True)
    make_demo_data()
    launched = launch_demo(runs_root(runs))
    if not as_json:
        say(f"launched {', then '.join(run.id for run in launched)}", flush=True)
    text = f"grubrics-tui watch {launched[-1].id} opens the live view of the last one"
    states = {run.id: followed(run, as_json) for run in launched} if wait else {}
    if wait:
        text = "\n".join(outcome(run, states[run.id]) for run in launched)
    rows = [{"run": run.id, "state": states[run.id].word if wait else None} for run in launched]
    answer({"runs": rows}, text, as_json)
    if not all(state.went_well for state in states.values()):
        raise typer.Exit(1)


COMMAND = Command(demo, Task.PREPARE)
