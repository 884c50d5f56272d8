"""Translate the YAML config of AFlow's GRPO trainer.

That trainer reads some keys elsewhere than its guide prints them, and never reads others. What such
a key says is translated, and the note tells what happened there.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import yaml

from engine.base.errors import UsageError, nearest
from engine.base.yaml_files import read_yaml
from engine.config.keys import flatten
from engine.reward.own.function import KEY as OWN_REWARD
from engine.run.kinds import GRPO
from engine.run.trainer_settings import key_of
from engine.translate.translation import Row, complaint, left_out

_ACTOR = "actor_rollout_ref.actor"
_MODEL = "actor_rollout_ref.model"
_ROLLOUT = "actor_rollout_ref.rollout"
_SCHEDULE = "grubrics.temperature_schedule"
_REQUIRED = ("base_model", "train_dataset")
_WHERE_UNREAD = {"checkpointing.save_every": 50, "checkpointing.eval_every": 10}
"""The values that count there: that trainer reads the keys at the top level alone."""
_ALWAYS = (
    ({"algorithm.adv_estimator": "grpo"}, "the trainer of that config"),
    ({f"{OWN_REWARD}.path": "task://workflows"}, "scores in five tiers"),
    ({f"{_ROLLOUT}.name": "vllm"}, "the rollout engine"),
    ({f"{_ROLLOUT}.tensor_model_parallel_size": 1}, "the whole model on each GPU"),
)
_DEFAULTS = (
    ("device_mapping", [0], "one GPU"),
    ("bf16", False, "the weights that trainer loads"),
    ("forward_pass_microbatch_size", 1, "there, one rollout at a time"),
    ("test_dataset", None, "every GRPO config has a validation file"),
    ("wandb.enabled", True, "W&B always logs there"),
)
"""Keys that a config leaves out, as that trainer would read them."""

_Source = Mapping[str, Any]


class _Rule(msgspec.Struct, frozen=True):
    to: tuple[str, ...] = ()
    note: str = ""


@cache
def _rules() -> dict[str, _Rule]:
    return msgspec.convert(read_yaml(Path(__file__).with_suffix(".yaml")), dict[str, _Rule])


def _convert(source: _Source, key: str, value: Any) -> tuple[Mapping[str, Any], str]:
    """The values of a config, and a note. No values: the note says why."""
    has_lora = source.get("use_lora") is not False
    has_schedule = bool(source.get("temperature_schedule.enabled", True))
    match key:
        case "lora_rank" | "lora_alpha" | "lora_target_modules" if not has_lora:
            return {}, "use_lora is false"
        case "lora_target_modules":
            names = [name.strip() for name in str(value).split(",")]
            return {f"{_MODEL}.target_modules": names}, ""
        case "use_lora" if value:
            return {}, f"{_MODEL}.lora_rank decides it"
        case "use_lora":
            return {f"{_MODEL}.lora_rank": 0}, "rank 0 trains the whole model"
        case "bf16":  # That trainer loads the weights in 16 bits. Weights that are trained need 32.
            dtypes = {f"{_ROLLOUT}.dtype": "bfloat16" if value else "float16"}
            if not has_lora:
                return dtypes, "the trained weights are float32; there 16 bits"
            return dtypes | {f"{_ACTOR}.fsdp_config.model_dtype": dtypes[f"{_ROLLOUT}.dtype"]}, ""
        case "device_mapping":
            count = len(value) if isinstance(value, list) else 1
            return {"trainer.n_gpus_per_node": max(1, count)}, "there, only the first one is used"
        case "max_steps":
            steps = {"trainer.total_training_steps": value, "trainer.total_epochs": 1000}
            return steps, "the steps end the run, not the epochs"
        case "gradient_accumulation_steps":  # There in micro batches of rollouts; here in prompts.
            rollouts = value * source.get("forward_pass_microbatch_size", 1)
            group = source.get("num_return_sequences_in_group", 1)
            mini = max(1, rollouts // group)
            note = f"an update after {mini} x {group} rollouts; there after {rollouts}"
            return {f"{_ACTOR}.ppo_mini_batch_size": mini}, note
        case "temperature_schedule.enabled":
            return {}, f"{_SCHEDULE}.steps decides it" if value else "no schedule is set"
        case "generation_config.temperature" if has_schedule:
            return {}, "it has no effect beside the temperature schedule"
        case _ if key.startswith("temperature_schedule.") and not has_schedule:
            return {}, "temperature_schedule.enabled is false"
        case "train_dataset" | "test_dataset":
            train, name = source["train_dataset"], "train" if key == "train_dataset" else "val"
            val = f" --val {source['test_dataset']}" if source.get("test_dataset") else ""
            folder = Path("data", Path(str(train)).stem)
            note = f"written by grubrics-tui prepare {train} --task workflows{val}"
            return {f"data.{name}_files": f"{folder}/{name}.parquet"}, note
        case "save_every":
            return {"trainer.save_freq": value if value > 0 else -1}, ""
        case "eval_every" if value and value > 0:
            return {"trainer.test_freq": value}, ""
        case "eval_every":
            return {"trainer.test_freq": -1, "trainer.val_before_train": False}, "no validation"
        case "wandb.enabled" if value:
            return {"trainer.logger": ["console", "wandb"]}, ""
        case "wandb.enabled":
            return {"trainer.logger": ["console"]}, "there, it is not read: W&B always logs"
        case "checkpointing.save_every" | "checkpointing.eval_every":
            name = key.partition(".")[2]
            if name in source:
                return {}, f"{name} at the top level counts"
            values, note = _convert(source, name, value)
            trap = f"there, it is not read below checkpointing, and {_WHERE_UNREAD[key]} counts"
            return values, f"{note}; {trap}" if note else trap
    rule = _rules()[key]
    return dict.fromkeys(map(key_of, rule.to), value), rule.note


def translate_aflow(path: Path) -> list[Row]:
    """Rows for every key of a config, and for what the config of ours needs besides.

    UsageError for a file that is no config, and for a value of the wrong type.
    """
    tree = read_yaml(path)
    if not isinstance(tree, dict):
        raise UsageError(f"{path}: empty, or not a mapping of keys")
    if "grubrics" in tree:
        raise UsageError(f"{path} is a config already: grubrics-tui check {path}")
    if missing := [key for key in _REQUIRED if key not in tree]:
        raise UsageError(
            f"{path} is no config of AFlow: {' and '.join(missing)} missing. grubrics-tui import "
            "reads scripts of verl and configs of AFlow"
        )
    keys, lines = dict(flatten(tree)), _lines(path)
    rows = [_translate(path, keys, key, lines.get(key)) for key in keys]
    return [*rows, *_others(keys, {key for row in rows for key in row.values})]


def _translate(path: Path, keys: _Source, key: str, line: int | None) -> Row:
    if key not in _rules():
        close = nearest(key, _rules())
        hint = f"; did you mean '{close}'?" if close else ""
        return left_out(key, line, f"not a key of AFlow's trainer{hint}")
    try:
        values, note = _convert(keys, key, keys[key])
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        raise UsageError(f"{path}: line {line}: {key} has a value of the wrong type") from error
    if not values:
        return left_out(key, line, note)
    for target, value in values.items():
        if (problem := complaint(target, value, GRPO)) is not None:
            raise UsageError(f"{path}: line {line}: {problem.replace(target, key)}")
    return Row(key, line, values, note)


def _others(keys: _Source, present: set[str]) -> list[Row]:
    rows = [Row("", None, values, note) for values, note in _ALWAYS]
    rows += [
        Row("", None, _convert(keys, key, value)[0], note)
        for key, value, note in _DEFAULTS
        if key not in keys
    ]
    if "gradient_accumulation_steps" not in keys:
        batch = keys.get("rollout_batch_size", 4)
        rows.append(Row("", None, {f"{_ACTOR}.ppo_mini_batch_size": batch}, "one update per step"))
    if "temperature_schedule.enabled" not in keys and f"{_SCHEDULE}.steps" not in present:
        note = "without temperature_schedule, that trainer rises from 0.3 to 0.8: set it yourself"
        rows.append(left_out("temperature_schedule", None, note))
    return rows


def _lines(path: Path) -> dict[str, int]:
    """The line of every key."""
    root = yaml.compose(path.read_text(encoding="utf-8"), Loader=yaml.SafeLoader)
    lines: dict[str, int] = {}
    waiting = [("", root)]
    while waiting:
        prefix, node = waiting.pop()
        if not isinstance(node, yaml.MappingNode):
            continue
        for key, value in node.value:
            lines[f"{prefix}{key.value}"] = key.start_mark.line + 1
            waiting.append((f"{prefix}{key.value}.", value))
    return lines
