"""Algorithms by one word: ``grubrics.preset=dapo`` sets the values in which DAPO differs from GRPO.

The table is ``presets.yaml``. A value that a person sets beside the preset wins.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from engine.base.errors import UsageError, unknown_name
from engine.base.yaml_files import read_table

KEY = "grubrics.preset"
_TABLE = Path(__file__).with_name("presets.yaml")
_LONGEST = "LONGEST"
_BUFFER = "reward.reward_kwargs.overlong_buffer_cfg"


@dataclass(frozen=True)
class Preset:
    """What an algorithm is, in a line, and the values by dotted key that make it."""

    summary: str
    values: Mapping[str, Any]


@cache
def presets() -> Mapping[str, Preset]:
    """The presets by name."""
    table = read_table(_TABLE, {"ACTOR": "actor_rollout_ref.actor"})
    return {name: Preset(**entry) for name, entry in table.items()}


def preset_names(value: Any) -> list[str]:
    """The presets in a value of ``grubrics.preset``: a name, a list of names, or null for none.

    UsageError for anything else.
    """
    names = [] if value is None else value if isinstance(value, list) else [value]
    for name in names:
        if not isinstance(name, str) or name not in presets():
            raise unknown_name(KEY, str(name), presets())
    return names


def preset_values(names: Sequence[str], max_response_length: Any) -> dict[str, Any]:
    """The values of presets by dotted key. UsageError if two of them do not fit together."""
    values: dict[str, Any] = {}
    owners: dict[str, str] = {}
    for name in names:
        for key, value in presets()[name].values.items():
            if values.setdefault(key, value) != value:
                raise UsageError(
                    f"{KEY}: '{owners[key]}' and '{name}' set {key} to different values; "
                    "leave one of them out"
                )
            owners.setdefault(key, name)
    if values.get(f"{_BUFFER}.enable"):
        values[f"{_BUFFER}.len"] = _overlong_buffer(max_response_length)
    return {
        key: max_response_length if value == _LONGEST else value for key, value in values.items()
    }


def _overlong_buffer(max_response_length: Any) -> int:
    """A fifth of the longest response, as DAPO's 4,096 of 20,480 tokens (arXiv 2503.14476)."""
    if not isinstance(max_response_length, int):
        raise UsageError(f"{KEY}=dapo needs a number as data.max_response_length")
    return max(1, max_response_length // 5)
