"""``grubrics-tui decide``: append a decision to the log of decisions."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from engine.base.quantities import format_date
from grubrics_tui.commands.shared import Command, Task, answer, argument, option, options


def decide(
    title: Annotated[str, argument("TITLE", "What was decided, in a few words")],
    decision: Annotated[str, option("TEXT", "The decision")] = "",
    reason: Annotated[str, option("TEXT", "Why, e.g. EXP-007 with its verdict")] = "",
    context: Annotated[str, option("TEXT", "What made it necessary")] = "",
    alternatives: Annotated[str, option("TEXT", "What else was considered")] = "",
    revisit: Annotated[str, option("TEXT", "When to think again")] = "",
    file: Annotated[Path, option("FILE", "Log of decisions, a Markdown file")] = Path(
        "docs/decisions.md"
    ),
    as_json: options.JsonOption = False,
) -> None:
    """Append a decision with its reason to the log of decisions."""
    from engine.report.decisions import Decision, append_decision, render_decision

    today = format_date()
    entry = Decision(title, today, decision, reason, context, alternatives, revisit)
    number = append_decision(file, entry)
    value = {
        "id": number,
        "decision": entry,
        "markdown": render_decision(entry, number),
        "appended_to": str(file),
    }
    answer(value, f"appended {number} to {file}", as_json)


COMMAND = Command(decide, Task.MEASURE)
