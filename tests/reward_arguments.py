"""The arguments of a call of a reward function."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def as_arguments(
    text: str, data_source: str, ground_truth: Any, extra_info: Mapping[str, Any]
) -> dict[str, Any]:
    """One call, as verl makes it."""
    return {
        "data_source": data_source,
        "solution_str": text,
        "ground_truth": ground_truth,
        "extra_info": dict(extra_info),
    }
