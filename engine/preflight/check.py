"""The result of a preflight check: ok, warn, fail or skip, with a message and a fix."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from engine.recipe.recipe import Recipe

Status = Literal["ok", "warn", "fail", "skip"]


@dataclass(frozen=True)
class Check:
    """An answered question about a launch. ``fix`` is a command or an edit that mends it."""

    id: str
    status: Status
    message: str
    fix: str | None = None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Subject:
    """What is checked: a recipe, the environment it will run in, and where its run will lie."""

    recipe: Recipe
    env: Mapping[str, str]
    runs: Path
    ahead: frozenset[str] = frozenset()
    """Runs that will have ended when this one starts."""
    waits: bool = False
    """Whether it will be checked once more when its turn comes."""


def ok(id: str, message: str) -> Check:
    return Check(id, "ok", message)


def warn(id: str, message: str, fix: str | None = None) -> Check:
    return Check(id, "warn", message, fix)


def fail(id: str, message: str, fix: str | None = None) -> Check:
    return Check(id, "fail", message, fix)


def skip(id: str, message: str) -> Check:
    return Check(id, "skip", message)


def summary(id: str, found: Iterable[Check], fine: str) -> Check:
    """One line for many answers: every failure, else every warning, else ``fine``."""
    answers = list(found)
    for status in ("fail", "warn"):
        chosen = [answer for answer in answers if answer.status == status]
        if chosen:
            fixes = dict.fromkeys(answer.fix for answer in chosen if answer.fix)
            message = "; ".join(answer.message for answer in chosen)
            return Check(id, chosen[0].status, message, "; ".join(fixes) or None)
    return ok(id, fine)
