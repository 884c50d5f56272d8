"""Remedies that fit a run's recipe: what it has a place for, and in the right direction from its
values. A log tells neither."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from engine.doctor.gold_data import has_gold
from engine.findings.finding import Change, Finding, Remedy
from engine.own_reward.function import KEY
from engine.recipe.keys import is_open
from engine.runs.rundir import RunDir

_LOWERED = frozenset(
    {
        "actor_rollout_ref.rollout.gpu_memory_utilization",
        "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu",
        "training.per_device_train_batch_size",
        "judge.max_concurrent",
    }
)
_RAISED = frozenset({"actor_rollout_ref.rollout.max_model_len", "judge.timeout_s"})
"""Keys whose proposed values are usual ones: a run may be beyond them already."""


def fitting(found: Sequence[Finding], run: RunDir) -> list[Finding]:
    """The findings without remedies on keys that the recipe of ``run`` does not have, and with
    values that go on from its own.

    Of a run that was not launched here nothing is known, and all stay.
    """
    recipe = run.read_manifest().get("config") if found else None
    return [_fitted(one, recipe, run) for one in found] if recipe else list(found)


def _fitted(one: Finding, recipe: Mapping[str, Any], run: RunDir) -> Finding:
    return replace(
        one,
        remedies=tuple(_remedies(one.remedies, recipe, run)),
        followed_by=tuple(_fitted(follower, recipe, run) for follower in one.followed_by),
    )


def _needs_gold(one: Remedy, run: RunDir) -> bool:
    """Whether a remedy takes the rubric reward for data that has no answers and gold scores."""
    takes_rubrics = any(change.key == f"{KEY}.path" and not change.after for change in one.changes)
    return takes_rubrics and not has_gold(run)


def _remedies(
    remedies: Sequence[Remedy], recipe: Mapping[str, Any], run: RunDir
) -> Iterator[Remedy]:
    for one in remedies:
        if all(_has_place(change, recipe) for change in one.changes) and not _needs_gold(one, run):
            yield replace(one, changes=tuple(_going_on(each, recipe) for each in one.changes))


def _going_on(change: Change, recipe: Mapping[str, Any]) -> Change:
    """The change, from the run's own value where that lies beyond the proposed one."""
    now, after = recipe.get(change.key, {}).get("value"), change.after
    if not isinstance(now, int | float) or not isinstance(after, int | float):
        return change
    if change.key in _LOWERED and now <= after:
        lower = max(1, now // 2) if isinstance(now, int) else round(0.75 * now, 2)
        return replace(change, after=lower)
    if change.key in _RAISED and now >= after:
        return replace(change, after=2 * now)
    return change


def _has_place(change: Change, recipe: Mapping[str, Any]) -> bool:
    if change.kind != "config":
        return True
    return change.key in recipe or is_open(change.key, recipe)
