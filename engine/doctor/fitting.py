"""Remedies that a run's recipe has a place for: a log does not tell what kind of run wrote it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from engine.doctor.finding import Change, Finding
from engine.launch.keys import is_open
from engine.runs.rundir import RunDir


def fitting(found: Sequence[Finding], run: RunDir) -> list[Finding]:
    """The findings without remedies on keys that the recipe of ``run`` does not have.

    Of a run that was not launched here nothing is known, and all stay.
    """
    recipe = run.read_manifest().get("config") if found else None
    return [_fitted(one, recipe) for one in found] if recipe else list(found)


def _fitted(one: Finding, recipe: Mapping[str, Any]) -> Finding:
    return replace(
        one,
        remedies=tuple(
            remedy
            for remedy in one.remedies
            if all(_has_place(change, recipe) for change in remedy.changes)
        ),
        followed_by=tuple(_fitted(follower, recipe) for follower in one.followed_by),
    )


def _has_place(change: Change, recipe: Mapping[str, Any]) -> bool:
    if change.kind != "config":
        return True
    return change.key in recipe or is_open(change.key, recipe)
