"""Fits fixes to a run: its keys, values beyond its present ones, and its name in commands."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from engine.base.errors import PackageError
from engine.base.parquet import pa, pq
from engine.data.contract import row_problem
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
"""Keys whose proposed values are typical values, which a run may already have passed."""


def fit_remedies(findings: Sequence[Finding], run: RunDir) -> list[Finding]:
    """Remove fixes that the run's config or data cannot take, and continue from its present values.

    A command in a title names the run.

    An external run keeps all fixes: its config is unknown.
    """
    recipe = run.read_manifest().get("config") if findings else None
    if not recipe:
        return list(findings)
    return [_fitted(finding, recipe, run) for finding in findings]


def _fitted(finding: Finding, recipe: Mapping[str, Any], run: RunDir) -> Finding:
    return replace(
        finding,
        remedies=tuple(_remedies(finding.remedies, recipe, run)),
        followed_by=tuple(_fitted(follower, recipe, run) for follower in finding.followed_by),
    )


def _needs_gold(remedy: Remedy, run: RunDir) -> bool:
    """Return whether a fix uses the rubric reward on data without answers and gold scores."""
    to_rubrics = any(change.key == f"{KEY}.path" and not change.after for change in remedy.changes)
    return to_rubrics and not has_gold(run)


def _remedies(
    remedies: Sequence[Remedy], recipe: Mapping[str, Any], run: RunDir
) -> Iterator[Remedy]:
    for remedy in remedies:
        is_known = all(_is_known(change, recipe) for change in remedy.changes)
        if is_known and not _needs_gold(remedy, run):
            changes = tuple(_continued(change, recipe) for change in remedy.changes)
            title = remedy.title.replace(" RUN", f" {run.id}")
            yield replace(remedy, title=title, changes=changes)


def _continued(change: Change, recipe: Mapping[str, Any]) -> Change:
    """Return the change, based on the run's value if that is already beyond the proposed one."""
    now, after = recipe.get(change.key, {}).get("value"), change.after
    if not isinstance(now, int | float) or not isinstance(after, int | float):
        return change
    if change.key in _LOWERED and now <= after:
        lower = max(1, now // 2) if isinstance(now, int) else round(0.75 * now, 2)
        return replace(change, after=lower)
    if change.key in _RAISED and now >= after:
        return replace(change, after=2 * now)
    return change


def _is_known(change: Change, recipe: Mapping[str, Any]) -> bool:
    if change.kind != "config":
        return True
    return change.key in recipe or is_open(change.key, recipe)


def has_gold(run: RunDir) -> bool:
    """Return whether the rubric reward can score the data: the first row has gold scores."""
    manifest = run.read_manifest()
    row = _first_row(Path(manifest.get("cwd") or ""), manifest)
    return row is not None and {"prompt", "extra_info"} <= row.keys() and not row_problem(row)


def _first_row(cwd: Path, manifest: dict[str, Any]) -> dict[str, Any] | None:
    files = (manifest.get("config") or {}).get("data.train_files", {}).get("value")
    first = files[0] if isinstance(files, list) and files else files
    try:
        batches = pq.ParquetFile(cwd / Path(str(first)).expanduser()).iter_batches(1)
        rows: list[dict[str, Any]] = next(batches).to_pylist()
    except PackageError:
        return None
    except (OSError, pa.ArrowException, StopIteration):
        return None
    return rows[0] if rows else None
