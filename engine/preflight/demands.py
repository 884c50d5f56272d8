"""What a config demands of itself: values that were chosen, and data with known hashes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from engine.base.files import content_hash
from engine.base.text import format_config_value
from engine.preflight.check import Check, fail
from engine.recipe.places import data_files
from engine.recipe.recipe import Recipe
from engine.runs.kinds import GRPO, SFT

_HELP = "restore the file, or change the value once you know why the data differ"

NO_SILENT_DEFAULTS = "grubrics.no_silent_defaults"
EXPECT_DATA = "grubrics.expect_data"

_SEED, _DATA_SEED = "grubrics.seed", "data.seed"
_ACTOR, _ROLLOUT = "actor_rollout_ref.actor", "actor_rollout_ref.rollout"
_LEARNING: Mapping[str, Sequence[tuple[str, ...]]] = {
    GRPO.name: (
        ("algorithm.adv_estimator",),
        (f"{_ACTOR}.optim.lr",),
        (f"{_ACTOR}.ppo_mini_batch_size",),
        (f"{_ACTOR}.clip_ratio", f"{_ACTOR}.clip_ratio_low"),
        (f"{_ACTOR}.use_kl_loss",),
        ("data.train_batch_size",),
        ("data.max_prompt_length",),
        ("data.max_response_length",),
        (f"{_ROLLOUT}.n",),
        (f"{_ROLLOUT}.temperature", "grubrics.temperature_schedule.initial"),
        ("trainer.total_epochs", "trainer.total_training_steps"),
        (_SEED,),
        (_DATA_SEED,),
    ),
    SFT.name: (
        ("training.learning_rate",),
        ("training.per_device_train_batch_size",),
        ("training.gradient_accumulation_steps",),
        ("training.num_train_epochs", "training.max_steps"),
        ("training.warmup_ratio",),
        ("training.weight_decay",),
        ("training.seed",),
        ("lora.r",),
        ("data.max_seq_length",),
    ),
}
"""The values that decide what is learned. One key of a row is enough. Null is no value."""


def silent_defaults(recipe: Recipe) -> dict[str, Any]:
    """The keys that decide what is learned and that nobody has set, with the values to set."""
    rows = _LEARNING[recipe.kind.name]
    silent = [keys[0] for keys in rows if not any(_is_set(recipe, key) for key in keys)]
    values = {key: recipe.get(key) for key in silent}
    if values.get(_DATA_SEED, 0) is None:
        values[_DATA_SEED] = recipe.get(_SEED)
    return values


def _is_set(recipe: Recipe, key: str) -> bool:
    return recipe.is_chosen(key) and recipe.get(key) is not None


def check_defaults(recipe: Recipe, check_id: str) -> Iterator[Check]:
    """Fail for defaults that nobody has set, if the config forbids them."""
    silent = silent_defaults(recipe) if recipe.get(NO_SILENT_DEFAULTS) else {}
    if silent:
        values = [f"{key}={format_config_value(value)}" for key, value in silent.items()]
        message = f"{recipe.path}: {NO_SILENT_DEFAULTS}: {', '.join(silent)} not set"
        yield fail(check_id, f"{message}; the fix has values for them", " ".join(values))


def check_hashes(recipe: Recipe, check_id: str) -> Iterator[Check]:
    """Fail for a data file whose SHA-256 is not expected, and for a hash without a file."""
    expected: Sequence[str] | None = recipe.get(EXPECT_DATA)
    if expected is None:
        return
    paths = dict.fromkeys(path.expanduser() for path in data_files(recipe))
    hashes = {path: content_hash(path) for path in paths if path.is_file()}
    for path, actual in hashes.items():
        if not _matches(actual, expected):
            yield fail(check_id, f"{path}: its SHA-256 {actual} is not in {EXPECT_DATA}", _HELP)
    for prefix in expected:
        if not any(_matches(actual, [prefix]) for actual in hashes.values()):
            yield fail(check_id, f"{EXPECT_DATA}: no data file has the SHA-256 {prefix}", _HELP)


def _matches(actual: str, expected: Sequence[str]) -> bool:
    return any(actual.startswith(prefix.lower()) for prefix in expected)
