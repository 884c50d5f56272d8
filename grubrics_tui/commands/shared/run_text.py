"""State and health of a run in answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from engine.run.run import Run
from engine.run.state import RunState, describe

if TYPE_CHECKING:
    from engine.doctor.health import Health


def health_json(health: Health | None) -> dict[str, Any]:
    """Return the key ``health``; null for a run that has not finished."""
    return {"health": None if health is None else health.to_json()}


def with_health(phrase: str, health: Health | None) -> str:
    """Append the health of a finished run to the phrase of its state."""
    return ", ".join(filter(None, (phrase, health.phrase if health else "")))


def outcome(run: Run, state: RunState) -> str:
    """Return state and directory of a run; if it has finished, with its health."""
    from engine.doctor.health import health_of

    health = health_of(run, state) if state.has_ended else None
    why = f"\nwhy: grubrics-tui diagnose {run.id}" if state.word in ("failed", "lost") else ""
    return f"{run.id}  {with_health(describe(state), health)}\n{run.path}{why}"
