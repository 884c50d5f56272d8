"""Reads a run directory into the context that its rules get."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from engine.base import jsonl
from engine.run.checkpoints.find import list_checkpoints
from engine.run.history.columns import Columns
from engine.run.kinds import find_kind
from engine.run.manifest import Manifest
from engine.run.run import Run
from engine.run.run_context import MetricContext, Start
from engine.run.state import RunState

_TRAINED = ("actor/lr", "train/lr", "actor/pg_loss", "train/loss")
"""Logged by every step that trains; the validation before step 1 logs none of them."""
_CHARS_A_TOKEN = 12
"""More than any tokenizer's mean over a text; single tokens may be longer."""


def read_context(run: Run, state: RunState, columns: Columns) -> MetricContext:
    """Return the context of a run of this project; nearly empty without a manifest."""
    manifest = run.read_full_manifest()
    config = manifest.values
    requested = jsonl.integer(config.get("trainer.total_training_steps"))
    return MetricContext(
        config=config,
        in_file=manifest.values_in_file,
        kind=find_kind(manifest.kind),
        total_steps=state.total_steps or manifest.total_steps,
        asked_steps=requested if requested is not None and requested > 0 else None,
        has_ended=state.has_ended,
        starts=tuple(_starts(manifest, config, columns)),
        reward_range=reward_range(config),
        checkpoints=tuple(
            saved.step for saved in list_checkpoints(run) if saved.complete and saved.step
        ),
        path=str(run.train_log),
    )


def _starts(manifest: Manifest, config: Mapping[str, object], columns: Columns) -> Iterator[Start]:
    """Yield the start of each attempt: the first from its metrics, later ones from the manifest.

    None for a command: its first step may be the first one that it logs, and its program resumes by
    itself.
    """
    if manifest.is_command:
        return
    first = next((columns.get(name) for name in _TRAINED if len(columns.get(name))), None)
    for attempt in manifest.attempts:
        number, step = attempt.number, attempt.from_step
        if number > 1:
            yield Start(number, (step or 0) + 1, step, asked=True)
        elif first is not None:
            step = int(first.steps[0])
            is_path_set = config.get("trainer.resume_mode") == "resume_path"
            is_requested = attempt.from_ is not None or is_path_set
            yield Start(1, step, step - 1 if step > 1 else None, is_requested)


def reward_range(config: Mapping[str, object]) -> tuple[float, float] | None:
    """Return the lowest and highest reward that the reward formula allows with a config's weights.

    None if the config uses another reward function or lacks a weight. Best: alignment 1 and the
    whole information bonus. Worst: alignment -1, no spread, and a rubric of the maximum response
    length (see ``engine.reward.reward``).
    """
    if config.get("reward.custom_reward_function.path"):
        return None
    names = ("lambda_len", "lambda_info", "lambda_defense", "char_threshold")
    keys = [*(f"reward_config.{name}" for name in names), "data.max_response_length"]
    if (values := _numbers(config, keys)) is None:
        return None
    by_length, by_info, by_defense, threshold, tokens = values
    longest = max(0.0, _CHARS_A_TOKEN * tokens - threshold) / max(threshold, 1.0)
    overlong = _overlong_penalty(config, tokens)
    return -1.0 - by_defense - by_length * longest - overlong, 1.0 + by_info


def _numbers(config: Mapping[str, object], keys: Iterable[str]) -> list[float] | None:
    """The values of the keys, if all of them are numbers."""
    values = [config.get(key) for key in keys]
    numbers = [float(value) for value in values if isinstance(value, int | float)]
    return numbers if len(numbers) == len(values) else None


def _overlong_penalty(config: Mapping[str, object], tokens: float) -> float:
    """Return the length penalty of the longest response (see ``engine.train.reward_entry``)."""
    section = "reward.reward_kwargs.overlong_buffer_cfg"
    names = (f"{section}.len", f"{section}.penalty_factor", "reward.reward_kwargs.max_resp_len")
    values = _numbers(config, names)
    if not config.get(f"{section}.enable") or values is None:
        return 0.0
    buffer, factor, limit = values
    return max(0.0, (tokens - limit + buffer) / max(buffer, 1.0) * factor)
