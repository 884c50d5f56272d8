"""Changes of a config, and the run that they would make, as text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from engine.base.text import format_config_value
from engine.findings.finding import Change
from engine.runs.state import describe, observed_state
from grubrics_tui.text.terminal_text import clean_text

if TYPE_CHECKING:
    from engine.launch.rerun import Rerun


def format_change(change: Change) -> str:
    """Format as ``data.train_batch_size: 24 -> 16  (why)``."""
    if change.kind == "command":
        return clean_text(f"first: {change.after}")
    before = "" if change.before is None else f"{format_config_value(change.before)} -> "
    why = f"  ({change.why})" if change.why else ""
    return clean_text(f"{change.key}: {before}{format_config_value(change.after)}{why}")


def format_rerun(child: Rerun) -> Iterator[str]:
    """Yield the run that a fix would launch, earlier runs with it, its checkpoint directory and the
    warnings of the preflight checks."""
    for earlier in child.before:
        yield clean_text(
            f"note: {earlier.id} already has these overrides ({describe(observed_state(earlier))})"
        )
    yield clean_text(f"new run: {child.plan.run_id}")
    yield clean_text(f"checkpoints: {child.weights}")
    count = len(child.warnings)
    warned = f" with {count} warning{'' if count == 1 else 's'}" if count else ""
    yield f"preflight checks passed{warned}"
    yield from (clean_text(f"  {check.id}: {check.message}") for check in child.warnings)
