"""What pruning frees, in words."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from grubrics_tui.text.formats import memory

if TYPE_CHECKING:
    from engine.checkpoints.pruning import Pruning


def format_pruning(pruning: Pruning) -> str:
    """``grpo-night   frees steps 10, 20, 30 (1.2 GiB), keeps steps 40 (best), 60 (last)``.

    Steps that are kept for one reason are named together.
    """
    run = f"{pruning.run.id:<36}"
    if pruning.kept_because:
        return f"{run} keeps all: {pruning.kept_because}"
    reasons = groupby(pruning.kept.items(), key=lambda item: item[1])
    kept = ", ".join(
        f"{', '.join(str(step) for step, _ in items)} ({reason})" for reason, items in reasons
    )
    keeps = f"keeps {_steps_word(len(pruning.kept))} {kept}" if kept else "keeps none"
    if not pruning.entries:
        return f"{run} nothing to free, {keeps}"
    count = len(pruning.steps)
    steps = ", ".join(map(str, pruning.steps))
    freed = f"{_steps_word(count)} {steps}" if count else "remains of a deletion"
    return f"{run} frees {freed} ({memory(pruning.bytes)}), {keeps}"


def _steps_word(count: int) -> str:
    return "step" if count == 1 else "steps"
