"""A run's state and health in answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from engine.runs.rundir import RunDir
from engine.runs.state import RunState, describe

if TYPE_CHECKING:
    from engine.doctor.health import Health


def health_json(health: Health | None) -> dict[str, Any]:
    """``health`` of a run that has not finished is null: its state says all."""
    return {"health": None if health is None else health.to_json()}


def with_health(phrase: str, health: Health | None) -> str:
    return ", ".join(filter(None, (phrase, health.phrase if health else "")))


def outcome(run: RunDir, state: RunState) -> str:
    """The state; of a run that was followed to its end with the doctor's verdict."""
    from engine.doctor.health import health_of

    health = health_of(run, state)
    trouble = f", {health.phrase}" if health and health.phrase else ""
    return f"{run.id}  {describe(state)}{trouble}\n{run.path}"
