"""Ids of questions, which files write as texts or as numbers."""

from __future__ import annotations

import math
from typing import Any


def id_text(value: Any) -> str | None:
    """An id as text; None for what names nothing.

    1 and 1.0 are one id: a table with a gap in a column of whole numbers holds floats.
    """
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    if isinstance(value, float):
        if not math.isfinite(value):
            return None
        return str(int(value)) if value.is_integer() else str(value)
    return str(value) or None
