"""Changes of a recipe as people and programs read them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from engine.findings.finding import Change
from engine.runs.rundir import RunDir
from engine.runs.state import describe, observed_state
from grubrics_tui.text.terminal_text import clean_text

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
    """The run that a remedy would make, those that it made already, its folder, and what the
    checklist says to it."""
    for earlier in child.before:
        yield clean_text(f"note: {earlier.id} has these changes already ({_now(earlier)})")
    yield clean_text(f"new run: {child.plan.run_id}")
    yield clean_text(f"weights: {child.weights}")
    count = len(child.warnings)
    warned = f" with {count} warning{'' if count == 1 else 's'}" if count else ""
    yield f"the checklist passes{warned}"
    yield from (clean_text(f"  {one.id}: {one.message}") for one in child.warnings)


def _now(run: RunDir) -> str:
    return describe(observed_state(run))


def change_json(change: Change) -> dict[str, Any]:
    return {
        "kind": change.kind,
        "key": change.key,
        "before": change.before,
        "after": change.after,
        "why": change.why,
    }
