"""Statistics of plain numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence


def percentile(ordered: Sequence[float], share: float) -> float | None:
    """Nearest-rank percentile of sorted values."""
    if not ordered:
        return None
    return ordered[min(len(ordered) - 1, max(0, math.ceil(share * len(ordered)) - 1))]


def floor_percentile(ordered: Sequence[float], share: float) -> float | None:
    """The value at the index floor(share (n - 1)) of sorted values, as short scripts take it."""
    return ordered[int(share * (len(ordered) - 1))] if ordered else None
