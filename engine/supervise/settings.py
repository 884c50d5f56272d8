"""Settings of supervision. Plain values: the supervisor reads them without pydantic."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from engine.base.jsonl import number

_REWARDS_AT_ONCE = 2.0
"""A step that waits for a hanging reward, or for two in turn, continues by itself: no stall."""


@dataclass(frozen=True)
class Supervision:
    """The ``supervision`` section of a config, from the manifest. Seconds."""

    interrupt_patience_s: float = 15.0
    terminate_patience_s: float = 5.0
    stall_factor: float = 8.0
    stall_floor_s: float = 60.0
    start_patience_s: float = 1800.0
    stack_dumps: bool = True
    queue_fast_failure_s: float = 120.0

    @classmethod
    def from_manifest(cls, manifest: Mapping[str, Any]) -> Supervision:
        config = manifest.get("config", {})
        values = {
            field.name: config[key]["value"]
            for field in fields(cls)
            if (key := f"supervision.{field.name}") in config
            and _is_like(config[key]["value"], field.default)
        }
        supervision = cls(**values)
        patience_s = _REWARDS_AT_ONCE * _reward_limit_s(config)
        return replace(supervision, stall_floor_s=max(supervision.stall_floor_s, patience_s))


def _reward_limit_s(config: Mapping[str, Any]) -> float:
    """The time limit of one call of the config's reward function; 0 without one."""
    keys = ("reward.custom_reward_function.path", "grubrics.reward_timeout_s")
    path, limit_s = (config.get(key, {}).get("value") for key in keys)
    return (number(limit_s) or 0.0) if path else 0.0


def _is_like(value: Any, default: Any) -> bool:
    return isinstance(value, bool) if isinstance(default, bool) else number(value) is not None
