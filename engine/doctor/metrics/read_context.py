"""What a run directory says of a run: the context that its metric rules are given."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from engine.base import jsonl
from engine.doctor.metrics.limits import reward_range
from engine.findings.run_context import MetricContext, Start
from engine.history.columns import Columns
from engine.runs.kinds import find_kind
from engine.runs.manifest import in_file
from engine.runs.rundir import RunDir
from engine.runs.state import RunState

_TRAINED = ("actor/lr", "train/lr", "actor/pg_loss", "train/loss")
"""Logged by every step that trains; the validation before step 1 logs none of them."""


def context_of(run: RunDir, state: RunState, columns: Columns) -> MetricContext:
    """The context of a run that was launched here. A missing manifest leaves it nearly empty."""
    manifest = run.read_manifest()
    recipe = {key: entry["value"] for key, entry in manifest.get("config", {}).items()}
    return MetricContext(
        recipe=recipe,
        in_file=in_file(manifest),
        kind=find_kind(manifest.get("kind")),
        total_steps=state.total_steps or jsonl.integer(manifest.get("total_steps")),
        asked_steps=_asked(recipe),
        has_ended=state.has_ended,
        starts=tuple(_starts(manifest, recipe, columns)),
        reward_range=reward_range(recipe),
        path=str(run.train_log),
    )


def _asked(recipe: Mapping[str, Any]) -> int | None:
    asked = jsonl.integer(recipe.get("trainer.total_training_steps"))
    return asked if asked is not None and asked > 0 else None


def _starts(
    manifest: Mapping[str, Any], recipe: Mapping[str, Any], columns: Columns
) -> Iterator[Start]:
    """The first attempt as its numbers show it, and later ones as they were asked for."""
    first = next((columns.get(name) for name in _TRAINED if len(columns.get(name))), None)
    for attempt in manifest.get("attempts", []):
        number, step = attempt["number"], jsonl.integer(attempt.get("from_step"))
        if number > 1:
            yield Start(number, (step or 0) + 1, step, asked=True)
        elif first is not None:
            began = int(first.steps[0])
            asked = bool(attempt.get("from")) or recipe.get("trainer.resume_mode") == "resume_path"
            yield Start(1, began, began - 1 if began > 1 else None, asked)
