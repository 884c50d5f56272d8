"""What pruning frees, in words."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from engine.base.counts import count_of
from grubrics_tui.text.formats import memory

if TYPE_CHECKING:
    from engine.checkpoints.pruning import Pruning


def format_pruning(pruning: Pruning) -> str:
    """``grpo-night   frees 3 checkpoints, 1.2 GiB: steps 10, 20, 30; keeps 40 (best), 60 (last)``.

    Steps that are kept for one reason are named together.
    """
    run = f"{pruning.run.id:<36}"
    if pruning.kept_because:
        return f"{run} keeps all: {pruning.kept_because}"
    reasons = groupby(pruning.kept.items(), key=lambda item: item[1])
    kept = ", ".join(
        f"{', '.join(str(step) for step, _ in items)} ({reason})" for reason, items in reasons
    )
    keeps = f"keeps {kept}" if kept else "keeps none"
    if not pruning.entries:
        return f"{run} {keeps}"
    steps = ", ".join(map(str, pruning.steps)) or "remains of a deletion"
    count = count_of(len(pruning.entries), "checkpoint")
    return f"{run} frees {count}, {memory(pruning.bytes)}: {steps}; {keeps}"
