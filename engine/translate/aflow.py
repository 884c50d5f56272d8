"""Translate the YAML config of AFlow's GRPO trainer.

That trainer reads some keys elsewhere than its guide prints them, and never reads others. What such
a key says is translated, and the note tells what happened there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import yaml

from engine.base.errors import UsageError, nearest
from engine.base.yaml_files import read_yaml
from engine.own_reward.function import KEY as OWN_REWARD
from engine.recipe.keys import flatten
from engine.runs.kinds import GRPO
from engine.translate.translation import Row, complaint, left_out

_ACTOR = "actor_rollout_ref.actor"
_MODEL = "actor_rollout_ref.model"
_ROLLOUT = "actor_rollout_ref.rollout"
_SCHEDULE = "grubrics.temperature_schedule"
_REQUIRED = ("base_model", "train_dataset")

_Source = Mapping[str, Any]
_Rule = Callable[[_Source, Any], tuple[Mapping[str, Any], str]]
"""From all keys and the value of one: the values of a config, and a note. No values: the note says
why."""


def _to(*keys: str, note: str = "") -> _Rule:
    return lambda _, value: (dict.fromkeys(keys, value), note)


def _none(why: str) -> _Rule:
    return lambda _, value: ({}, why)


def _with_lora(key: str) -> _Rule:
    def rule(source: _Source, value: Any) -> tuple[Mapping[str, Any], str]:
        if source.get("use_lora") is False:
            return {}, "use_lora is false"
        return {key: value}, ""

    return rule


def _use_lora(source: _Source, value: Any) -> tuple[Mapping[str, Any], str]:
    if value:
        return {}, f"{_MODEL}.lora_rank decides it"
    return {f"{_MODEL}.lora_rank": 0}, "rank 0 trains the whole model"


def _target_modules(source: _Source, value: Any) -> tuple[Mapping[str, Any], str]:
    names = [name.strip() for name in str(value).split(",")]
    return _with_lora(f"{_MODEL}.target_modules")(source, names)


def _precision(source: _Source, value: Any) -> tuple[Mapping[str, Any], str]:
    """That trainer loads the weights in 16 bits. Weights that are trained need 32."""
    dtype = "bfloat16" if value else "float16"
    if source.get("use_lora") is False:
        return {f"{_ROLLOUT}.dtype": dtype}, "the trained weights are float32; there 16 bits"
    return {f"{_ROLLOUT}.dtype": dtype, f"{_ACTOR}.fsdp_config.model_dtype": dtype}, ""


def _gpus(_: _Source, value: Any) -> tuple[Mapping[str, Any], str]:
    count = len(value) if isinstance(value, list) else 1
    return {"trainer.n_gpus_per_node": max(1, count)}, "there, only the first one is used"


def _accumulation(source: _Source, value: Any) -> tuple[Mapping[str, Any], str]:
    """There, the optimizer steps after so many micro batches of rollouts; here, a mini batch is
    counted in prompts."""
    micro = source.get("forward_pass_microbatch_size", 1)
    group = source.get("num_return_sequences_in_group", 1)
    rollouts = value * micro
    mini = max(1, rollouts // group)
    note = f"an update after {mini} x {group} rollouts; there after {rollouts}"
    return {f"{_ACTOR}.ppo_mini_batch_size": mini}, note


def _micro(_: _Source, value: Any) -> tuple[Mapping[str, Any], str]:
    keys = (
        f"{_ACTOR}.ppo_micro_batch_size_per_gpu",
        f"{_ROLLOUT}.log_prob_micro_batch_size_per_gpu",
        "actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu",
    )
    return dict.fromkeys(keys, value), ""


def _has_schedule(source: _Source) -> bool:
    return bool(source.get("temperature_schedule.enabled", True))


def _of_schedule(name: str) -> _Rule:
    def rule(source: _Source, value: Any) -> tuple[Mapping[str, Any], str]:
        if not _has_schedule(source):
            return {}, "temperature_schedule.enabled is false"
        return {f"{_SCHEDULE}.{name}": value}, ""

    return rule


def _enabled(_: _Source, value: Any) -> tuple[Mapping[str, Any], str]:
    return {}, f"{_SCHEDULE}.steps decides it" if value else "no schedule is set"


def _temperature(source: _Source, value: Any) -> tuple[Mapping[str, Any], str]:
    if _has_schedule(source):
        return {}, "it has no effect beside the temperature schedule"
    return {f"{_ROLLOUT}.temperature": value}, ""


def _train(source: _Source, value: Any) -> tuple[Mapping[str, Any], str]:
    return {"data.train_files": f"{_folder(source)}/train.parquet"}, _prepare(source)


def _test(source: _Source, value: Any) -> tuple[Mapping[str, Any], str]:
    return {"data.val_files": f"{_folder(source)}/val.parquet"}, _prepare(source)


def _folder(source: _Source) -> str:
    """Where ``prepare`` writes the files."""
    return str(Path("data", Path(str(source["train_dataset"])).stem))


def _prepare(source: _Source) -> str:
    val = f" --val {source['test_dataset']}" if source.get("test_dataset") else ""
    return f"written by grubrics-tui prepare {source['train_dataset']} --task workflows{val}"


_SHARES = (
    "for shares in every step, prepare a file per domain, and set data.train_files and "
    "grubrics.shares; there, the shares hold only in batches of 10"
)


def _eval_every(_: _Source, value: Any) -> tuple[Mapping[str, Any], str]:
    if value and value > 0:
        return {"trainer.test_freq": value}, ""
    return {"trainer.test_freq": -1, "trainer.val_before_train": False}, "no validation"


def _under_checkpointing(name: str, default: int) -> _Rule:
    """The trainer reads the key at the top level alone."""

    def rule(source: _Source, value: Any) -> tuple[Mapping[str, Any], str]:
        if name in source:
            return {}, f"{name} at the top level counts"
        values, note = _RULES[name](source, value)
        trap = f"there, it is not read below checkpointing, and {default} counts"
        return values, f"{note}; {trap}" if note else trap

    return rule


def _wandb(_: _Source, value: Any) -> tuple[Mapping[str, Any], str]:
    loggers = ["console", "wandb"] if value else ["console"]
    return {"trainer.logger": loggers}, "" if value else "there, it is not read: W&B always logs"


_RULES: Mapping[str, _Rule] = {
    "base_model": _to(f"{_MODEL}.path"),
    "device_mapping": _gpus,
    "physical_gpus": _none("set CUDA_VISIBLE_DEVICES at the launch"),
    "bf16": _precision,
    "use_lora": _use_lora,
    "lora_rank": _with_lora(f"{_MODEL}.lora_rank"),
    "lora_alpha": _with_lora(f"{_MODEL}.lora_alpha"),
    "lora_dropout": _none("verl's FSDP engine has no LoRA dropout"),
    "lora_target_modules": _target_modules,
    "max_steps": lambda _, value: (
        {"trainer.total_training_steps": value, "trainer.total_epochs": 1000},
        "the steps end the run, not the epochs",
    ),
    "rollout_batch_size": _to("data.train_batch_size"),
    "num_return_sequences_in_group": _to(f"{_ROLLOUT}.n"),
    "learning_rate": _to(f"{_ACTOR}.optim.lr"),
    "warmup_steps": _to(
        f"{_ACTOR}.optim.lr_warmup_steps", note="there, it is never read: the rate is constant"
    ),
    "gradient_accumulation_steps": _accumulation,
    "forward_pass_microbatch_size": _micro,
    "clip_range": _to(f"{_ACTOR}.clip_ratio_low", f"{_ACTOR}.clip_ratio_high"),
    "max_grad_norm": _to(f"{_ACTOR}.optim.clip_grad"),
    "weight_decay": _to(f"{_ACTOR}.optim.weight_decay"),
    "use_kl_loss": _to(f"{_ACTOR}.use_kl_loss"),
    "kl_loss_coef": _to(
        f"{_ACTOR}.kl_loss_coef",
        note="here against a reference model; there against the policy before the step",
    ),
    "temperature_schedule.enabled": _enabled,
    "temperature_schedule.initial": _of_schedule("initial"),
    "temperature_schedule.final": _of_schedule("final"),
    "temperature_schedule.warmup_steps": _of_schedule("steps"),
    "generation_config.temperature": _temperature,
    "generation_config.max_tokens": _to("data.max_response_length"),
    "generation_config.top_p": _to(f"{_ROLLOUT}.top_p"),
    "generation_config.top_k": _to(f"{_ROLLOUT}.top_k"),
    "data_dir": _none("data files are named by their paths"),
    "train_dataset": _train,
    "test_dataset": _test,
    "domain_ratios.math": _none(_SHARES),
    "domain_ratios.qa": _none(_SHARES),
    "domain_ratios.code": _none(_SHARES),
    "aflow_config_path": _none(
        f"the executor is {OWN_REWARD}.reward_kwargs.executor_url; its key is in OPENAI_API_KEY"
    ),
    "aflow_executor_model": _to(
        f"{OWN_REWARD}.reward_kwargs.executor_model",
        note="read with executor_url (docs/workflows.md)",
    ),
    "aflow_operator_descriptions_path": _none("the task workflows describes its operators"),
    "execution_timeout": _to("grubrics.reward_timeout_s"),
    "experience_buffer.buffer_size": _none("there is no buffer of earlier workflows"),
    "experience_buffer.reward_threshold": _none("there is no buffer of earlier workflows"),
    "experience_buffer.persistence_dir": _none("there is no buffer of earlier workflows"),
    "output_dir": _to("trainer.default_local_dir"),
    "checkpointing.save_dir": _none("output_dir decides it, there too"),
    "checkpointing.log_every": _none("every step is logged"),
    "checkpointing.save_every": lambda source, value: _under_checkpointing("save_every", 50)(
        source, value
    ),
    "checkpointing.eval_every": lambda source, value: _under_checkpointing("eval_every", 10)(
        source, value
    ),
    "log_every": _none("every step is logged"),
    "save_every": lambda _, value: ({"trainer.save_freq": value if value > 0 else -1}, ""),
    "eval_every": _eval_every,
    "wandb.enabled": _wandb,
    "wandb.project": _to("trainer.project_name"),
    "wandb.run_name": _to("trainer.experiment_name"),
}


def is_aflow(path: Path) -> bool:
    """Whether a file may be such a config: by its suffix."""
    return path.suffix in (".yaml", ".yml")


def read_aflow(path: Path) -> dict[str, Any]:
    """The dotted keys of a config. UsageError for a file that is no config."""
    tree = read_yaml(path)
    if not isinstance(tree, dict):
        raise UsageError(f"{path}: empty, or not a mapping of keys")
    if "grubrics" in tree:
        raise UsageError(f"{path} is a config already: grubrics-tui check {path}")
    missing = [key for key in _REQUIRED if key not in tree]
    if missing:
        raise UsageError(
            f"{path} is no config of AFlow: {' and '.join(missing)} missing. grubrics-tui import "
            "reads scripts of verl and configs of AFlow"
        )
    return dict(flatten(tree))


def translate_aflow(path: Path, keys: Mapping[str, Any]) -> list[Row]:
    """Rows for every key, and for what the config needs besides. UsageError for a wrong type."""
    lines = _lines(path)
    rows = [_translate(path, keys, key, lines.get(key)) for key in keys]
    return [*rows, *_others(keys, {key for row in rows for key in row.values})]


def _translate(path: Path, keys: _Source, key: str, line: int | None) -> Row:
    rule = _RULES.get(key)
    if rule is None:
        close = nearest(key, _RULES)
        hint = f"; did you mean '{close}'?" if close else ""
        return left_out(key, line, f"not a key of AFlow's trainer{hint}")
    try:
        values, note = rule(keys, keys[key])
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        raise UsageError(f"{path}: line {line}: {key} has a value of the wrong type") from error
    if not values:
        return left_out(key, line, note)
    for target, value in values.items():
        if (problem := complaint(target, value, GRPO)) is not None:
            raise UsageError(f"{path}: line {line}: {problem.replace(target, key)}")
    return Row(key, line, values, note)


def _others(keys: _Source, present: set[str]) -> list[Row]:
    rows = [
        Row("", None, {"algorithm.adv_estimator": "grpo"}, "the trainer of that config"),
        Row("", None, {f"{OWN_REWARD}.path": "task://workflows"}, "scores in five tiers"),
        Row("", None, {f"{_ROLLOUT}.name": "vllm"}, "the rollout engine"),
        Row("", None, {f"{_ROLLOUT}.tensor_model_parallel_size": 1}, "the whole model on each GPU"),
    ]
    if "device_mapping" not in keys:
        rows.append(Row("", None, _gpus(keys, [0])[0], "one GPU"))
    if "bf16" not in keys:
        rows.append(Row("", None, _precision(keys, False)[0], "the weights that trainer loads"))
    if "forward_pass_microbatch_size" not in keys:
        rows.append(Row("", None, _micro(keys, 1)[0], "there, one rollout at a time"))
    if "gradient_accumulation_steps" not in keys:
        batch = keys.get("rollout_batch_size", 4)
        rows.append(Row("", None, {f"{_ACTOR}.ppo_mini_batch_size": batch}, "one update per step"))
    if "temperature_schedule.enabled" not in keys and f"{_SCHEDULE}.steps" not in present:
        note = "without temperature_schedule, that trainer rises from 0.3 to 0.8: set it yourself"
        rows.append(left_out("temperature_schedule", None, note))
    if "data.val_files" not in present:
        values = {"data.val_files": f"{_folder(keys)}/val.parquet"}
        rows.append(Row("", None, values, "every GRPO config has a validation file"))
    if "wandb.enabled" not in keys:
        rows.append(
            Row("", None, {"trainer.logger": ["console", "wandb"]}, "W&B always logs there")
        )
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
