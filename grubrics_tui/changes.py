"""Changes of a recipe as people and programs read them."""

from __future__ import annotations

from typing import Any

from engine.doctor.finding import Change
from grubrics_tui.terminal_text import clean_text


def told(change: Change) -> str:
    """``data.train_batch_size: 24 -> 16  (why)``."""
    if change.kind == "command":
        return clean_text(f"first: {change.after}")
    before = "" if change.before is None else f"{change.before} -> "
    why = f"  ({change.why})" if change.why else ""
    return clean_text(f"{change.key}: {before}{change.after}{why}")


def change_json(change: Change) -> dict[str, Any]:
    return {
        "kind": change.kind,
        "key": change.key,
        "before": change.before,
        "after": change.after,
        "why": change.why,
    }
