"""The log of decisions: why something was chosen, and when to think again."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from engine.base.errors import UsageError
from engine.report.numbered_log import NumberedLog, one_line, render_entry

DECISIONS = "decisions.md"
"""The name of the file, beside the experiment log."""


@dataclass(frozen=True)
class Decision:
    """An entry; lines of a field are separated by newlines, and empty fields are left out."""

    title: str
    date: str
    decision: str
    reason: str
    context: str = ""
    alternatives: str = ""
    revisit: str = ""


def decision_log(path: Path) -> NumberedLog:
    return NumberedLog(path, "DEC", "# Decisions\n")


def append_decision(path: Path, decision: Decision) -> str:
    """Append the decision and return its ID. UsageError without a title, decision or reason."""
    for name in ("title", "decision", "reason"):
        if not getattr(decision, name).strip():
            raise UsageError(
                f"the {name} is missing: a decision has a title, a decision and a reason"
            )
    return decision_log(path).append(lambda number: render_decision(decision, number))


def render_decision(decision: Decision, number: str) -> str:
    """The entry as Markdown: ``### [DEC-007] title``, then one bold label per field."""
    fields = (
        ("Date", decision.date),
        ("Context", decision.context),
        ("Alternatives", decision.alternatives),
        ("Decision", decision.decision),
        ("Reason", decision.reason),
        ("Revisit when", decision.revisit),
    )
    return render_entry(f"[{number}] {one_line(decision.title)}", fields)
