"""Count the updates that verl skips, and end a run that skips too many in a row.

verl leaves the weights alone if the norm of a gradient is NaN or infinite, and continues.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, MutableMapping
from typing import Any

from engine.run.history import metrics

VARIABLE = "GRUBRICS_MAX_SKIPPED_UPDATES"


class SkippedUpdatesError(RuntimeError):
    """Too many updates in a row were skipped."""


def announce(limit: int | None, env: MutableMapping[str, str]) -> None:
    """Have the processes of this process's run count, and end it at ``limit``; None: never."""
    env[VARIABLE] = "" if limit is None else str(limit)


class SkipCounter:
    """Counts the skipped updates of one model in one process."""

    def __init__(self) -> None:
        self._in_a_row = 0

    def count(self, grad_norm: float, loss_scale: float) -> dict[str, float]:
        """The metrics of one update. Of the updates of a step, verl logs the mean, and of names
        with ``max`` in them the largest value.

        While ``loss_scale`` is above 1, an infinite norm only means that it is searched for.
        """
        skipped = not math.isfinite(grad_norm)
        if not skipped:
            self._in_a_row = 0
        elif loss_scale <= 1:
            self._in_a_row += 1
        return {
            metrics.SKIPPED_SHARE: float(skipped),
            metrics.MAX_SKIPPED_IN_A_ROW: float(self._in_a_row),
        }


def require_trained(logged: Mapping[str, Any], step: int) -> None:
    """Raise SkippedUpdatesError if the metrics of a step say that the limit is reached."""
    limit = os.environ.get(VARIABLE)
    counts = [n for name, n in logged.items() if name.endswith(metrics.MAX_SKIPPED_IN_A_ROW)]
    if limit and max(counts, default=0) >= int(limit):
        raise SkippedUpdatesError(
            f"step {step}: {max(counts):.0f} updates in a row were skipped, because the norm of "
            f"their gradient was NaN or infinite (grubrics.max_skipped_updates={limit})"
        )
