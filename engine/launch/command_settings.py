"""Settings of a run that executes a command: the sections of a config that concern no trainer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import ValidationError

from engine.base.errors import UsageError, unknown_name
from engine.recipe.keys import flatten, unflatten
from engine.recipe.recipe import parse_override
from engine.recipe.schema import GuardSection, Section, SupervisionSection
from engine.recipe.secrets import refuse_secret


class CommandSections(Section):
    supervision: SupervisionSection = SupervisionSection()
    guard: GuardSection = GuardSection(stop_at_once=True)
    """Nothing is known of a command's checkpoints, so a stop waits for none."""


def read_settings(stop_on: str | None, overrides: Sequence[str]) -> dict[str, dict[str, Any]]:
    """The settings as a manifest has them, with only those that were chosen.

    ``stop_on`` are names of findings, separated by commas, on which the guard stops the run.
    UsageError for an unknown key or an invalid value.
    """
    chosen = dict(parse_override(text) for text in overrides)
    if stop_on is not None:
        chosen["guard.stop_on"] = [name.strip() for name in stop_on.split(",")]
    if not chosen:
        return {}
    for key, value in chosen.items():
        refuse_secret("--set", key, value)
    known = dict(flatten(CommandSections().model_dump()))
    for key in chosen:
        if key not in known:
            raise unknown_name("setting", key, sorted(known))
    values = {key: chosen.get(key, default) for key, default in known.items()}
    try:
        CommandSections.model_validate(unflatten(values))
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        raise UsageError(f"{key}={first['input']!r}: {first['msg']}") from error
    settings = {key: {"value": value, "origin": "cli"} for key, value in chosen.items()}
    if any(key.startswith("guard.") for key in chosen):
        settings.setdefault("guard.stop_at_once", {"value": True, "origin": "default"})
    return settings
