"""Changes of a recipe as people and programs read them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from engine.doctor.finding import Change
from grubrics_tui.terminal_text import clean_text

if TYPE_CHECKING:
    from engine.launch.child import Child


def told(change: Change) -> str:
    """``data.train_batch_size: 24 -> 16  (why)``."""
    if change.kind == "command":
        return clean_text(f"first: {change.after}")
    before = "" if change.before is None else f"{change.before} -> "
    why = f"  ({change.why})" if change.why else ""
    return clean_text(f"{change.key}: {before}{change.after}{why}")


def child_lines(child: Child) -> Iterator[str]:
    """The run that a remedy would make, its folder, and what the checklist says to it."""
    yield clean_text(f"new run: {child.plan.run_id}")
    yield clean_text(f"weights: {child.weights}")
    count = len(child.warnings)
    warned = f" with {count} warning{'' if count == 1 else 's'}" if count else ""
    yield f"the checklist passes{warned}"
    yield from (clean_text(f"  {one.id}: {one.message}") for one in child.warnings)


def change_json(change: Change) -> dict[str, Any]:
    return {
        "kind": change.kind,
        "key": change.key,
        "before": change.before,
        "after": change.after,
        "why": change.why,
    }
