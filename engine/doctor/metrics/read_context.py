"""Reads a run directory into the context that its rules get."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from engine.base import jsonl
from engine.findings.run_context import MetricContext, Start
from engine.history.columns import Columns
from engine.runs.kinds import find_kind
from engine.runs.manifest import in_file
from engine.runs.rundir import RunDir
from engine.runs.state import RunState

_TRAINED = ("actor/lr", "train/lr", "actor/pg_loss", "train/loss")
"""Logged by every step that trains; the validation before step 1 logs none of them."""
_CHARS_A_TOKEN = 12
"""More than any tokenizer's mean over a text; single tokens may be longer."""


def read_context(run: RunDir, state: RunState, columns: Columns) -> MetricContext:
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
    """The first attempt by its metrics, and later ones by what was requested."""
    first = next((columns.get(name) for name in _TRAINED if len(columns.get(name))), None)
    for attempt in manifest.get("attempts", []):
        number, step = attempt["number"], jsonl.integer(attempt.get("from_step"))
        if number > 1:
            yield Start(number, (step or 0) + 1, step, asked=True)
        elif first is not None:
            began = int(first.steps[0])
            asked = bool(attempt.get("from")) or recipe.get("trainer.resume_mode") == "resume_path"
            yield Start(1, began, began - 1 if began > 1 else None, asked)


def reward_range(recipe: Mapping[str, Any]) -> tuple[float, float] | None:
    """The lowest and highest reward that a config's own arithmetic allows.

    None where another reward function is used or the weights are not known. Best: alignment 1 and
    all of the information bonus. Worst: alignment -1, no spread, and a rubric as long as a response
    may be (see ``engine.reward.reward``).
    """
    if recipe.get("reward.custom_reward_function.path"):
        return None
    names = ("lambda_len", "lambda_info", "lambda_defense", "char_threshold")
    values = [recipe.get(f"reward_config.{name}") for name in names]
    tokens = recipe.get("data.max_response_length")
    if not all(isinstance(value, int | float) for value in (*values, tokens)):
        return None
    by_length, by_info, by_defense, threshold = (float(value or 0) for value in values)
    longest = max(0.0, _CHARS_A_TOKEN * float(tokens or 0) - threshold) / max(threshold, 1.0)
    overlong = _overlong(recipe, float(tokens or 0))
    return -1.0 - by_defense - by_length * longest - overlong, 1.0 + by_info


def _overlong(recipe: Mapping[str, Any], tokens: float) -> float:
    """What the longest response loses by its length (see ``engine.train.reward_entry``)."""
    section = "reward.reward_kwargs.overlong_buffer_cfg"
    names = (f"{section}.len", f"{section}.penalty_factor", "reward.reward_kwargs.max_resp_len")
    values = [recipe.get(name) for name in names]
    if not recipe.get(f"{section}.enable") or not all(isinstance(v, int | float) for v in values):
        return 0.0
    buffer, factor, limit = (float(value or 0) for value in values)
    return max(0.0, (tokens - limit + buffer) / max(buffer, 1.0) * factor)
