"""``grubrics-tui decide``: append a decision to the log of decisions."""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from grubrics_tui.commands.shared import Command, Task, answer, options


def decide(
    title: Annotated[str, typer.Argument(metavar="TITLE", help="What was decided, in a few words")],
    decision: Annotated[str, typer.Option(metavar="TEXT", help="The decision")] = "",
    reason: Annotated[
        str, typer.Option(metavar="TEXT", help="Why, e.g. EXP-007 with its verdict")
    ] = "",
    context: Annotated[str, typer.Option(metavar="TEXT", help="What made it necessary")] = "",
    alternatives: Annotated[
        str, typer.Option(metavar="TEXT", help="What else was considered")
    ] = "",
    revisit: Annotated[str, typer.Option(metavar="TEXT", help="When to think again")] = "",
    file: Annotated[
        Path, typer.Option(metavar="FILE", help="Log of decisions, a Markdown file")
    ] = Path("docs/decisions.md"),
    as_json: options.JsonOption = False,
) -> None:
    """Append a decision with its reason to the log of decisions."""
    from engine.reports.decisions import Decision, append_decision, render_decision

    today = time.strftime("%Y-%m-%d")
    entry = Decision(title, today, decision, reason, context, alternatives, revisit)
    number = append_decision(file, entry)
    value = {
        "id": number,
        "decision": asdict(entry),
        "markdown": render_decision(entry, number),
        "appended_to": str(file),
    }
    answer(value, f"appended {number} to {file}", as_json)


COMMAND = Command(decide, Task.MEASURE)
