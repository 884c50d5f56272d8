"""Translate the keys of verl's SFT trainers into the sections of an SFT config."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine.recipe.keys import flatten, nearest_key, verl_sft_defaults
from engine.runs.kinds import SFT
from engine.translate.translation import Row, checked, left_out
from engine.translate.verl_script import GROUP, Override, TrainerCall, export_rows

_Convert = Callable[[Any], Any]


class _NoCounterpartError(Exception):
    """Why a value has no counterpart."""


@dataclass(frozen=True)
class _Target:
    """The key of a config, and how its value follows from verl's."""

    key: str
    convert: _Convert = lambda value: value


def _one_file(value: Any) -> Any:
    """The only file of verl's list."""
    files = value if isinstance(value, list) else [value]
    if len(files) != 1:
        raise _NoCounterpartError("an SFT config has one file; join them")
    return files[0]


def _scheduler(value: Any) -> str:
    if value not in ("cosine", "constant"):
        raise _NoCounterpartError(f"there is no schedule {value}; known: cosine, constant")
    return str(value)


def _loggers(value: Any) -> list[str]:
    chosen = value if isinstance(value, list) else [value]
    known = [name for name in chosen if name in ("console", "file", "wandb")]
    if not known:
        raise _NoCounterpartError("SFT logs to console, file or wandb")
    return known


def _is_bf16(value: Any) -> bool:
    return str(value) in ("bf16", "bfloat16")


def _every(value: Any) -> Any:
    if value is not None and type(value) is not int:
        raise _NoCounterpartError(f"{value!r} is not a number of steps")
    return value if value is None or value > 0 else -1


def _interval(value: Any) -> int:
    if type(value) is not int or value < 1:
        raise _NoCounterpartError("without an interval, data.val_file is used after each epoch")
    return value


_TARGETS: Mapping[str, _Target] = {
    "data.train_files": _Target("data.train_file", _one_file),
    "data.val_files": _Target("data.val_file", _one_file),
    "data.max_length": _Target("data.max_seq_length"),
    "data.micro_batch_size_per_gpu": _Target("training.per_device_train_batch_size"),
    "data.micro_batch_size": _Target("training.per_device_train_batch_size"),
    "data.ignore_input_ids_mismatch": _Target("data.ignore_input_ids_mismatch"),
    "model.partial_pretrain": _Target("model.path"),
    "model.path": _Target("model.path"),
    "model.trust_remote_code": _Target("model.trust_remote_code"),
    "model.custom_chat_template": _Target("model.custom_chat_template"),
    "model.enable_gradient_checkpointing": _Target("training.gradient_checkpointing"),
    "model.lora_rank": _Target("lora.r"),
    "model.lora_alpha": _Target("lora.alpha"),
    "model.target_modules": _Target("lora.target_modules"),
    "engine.dtype": _Target("training.bf16", _is_bf16),
    "engine.mixed_precision.param_dtype": _Target("training.bf16", _is_bf16),
    "optim.lr": _Target("training.learning_rate"),
    "optim.betas": _Target("training.betas"),
    "optim.weight_decay": _Target("training.weight_decay"),
    "optim.clip_grad": _Target("training.max_grad_norm"),
    "optim.lr_warmup_steps_ratio": _Target("training.warmup_ratio"),
    "optim.warmup_steps_ratio": _Target("training.warmup_ratio"),
    "optim.min_lr_ratio": _Target("training.min_lr_ratio"),
    "optim.lr_scheduler": _Target("training.lr_scheduler_type", _scheduler),
    "optim.lr_scheduler_type": _Target("training.lr_scheduler_type", _scheduler),
    "optim.warmup_style": _Target("training.lr_scheduler_type", _scheduler),
    "trainer.project_name": _Target("logging.project"),
    "trainer.experiment_name": _Target("logging.run_name"),
    "trainer.logger": _Target("logging.report_to", _loggers),
    "trainer.default_local_dir": _Target("training.output_dir"),
    "trainer.total_epochs": _Target("training.num_train_epochs"),
    "trainer.total_training_steps": _Target("training.max_steps"),
    "trainer.save_freq": _Target("training.save_steps", _every),
    "trainer.test_freq": _Target("training.eval_steps", _interval),
    "trainer.seed": _Target("training.seed"),
    "trainer.n_gpus_per_node": _Target("training.n_gpus"),
    "trainer.resume_from_path": _Target("training.resume_from"),
}
"""By the key of verl, of ``fsdp_sft_trainer`` too."""

_NONE: Mapping[str, str] = {
    "model.fsdp_config.model_dtype": "weights are float32; training.bf16 says how they compute",
    "engine.model_dtype": "weights are float32; training.bf16 says how they compute",
    "data.truncation": "conversations are cut at the right; check names those that are too long",
    "data.use_dynamic_bsz": "batches have a fixed number of conversations",
    "data.max_token_len_per_gpu": "batches have a fixed number of conversations",
    "data.pad_mode": "padding is chosen by the trainer",
    "data.num_workers": "the files are read by the trainer",
    "data.custom_cls.path": "rows have messages, or prompt and response",
    "data.multiturn.enable": "a row with messages may have any number of turns",
    "trainer.resume_mode": "to resume a run: grubrics-tui resume RUN",
    "trainer.nnodes": "SFT uses the GPUs of one machine",
    "trainer.default_hdfs_dir": "checkpoints are local",
    "trainer.device": "import --device chooses it",
    "use_remove_padding": "the trainer chooses it by what is installed",
    "model.use_remove_padding": "the trainer chooses it by what is installed",
    "ulysses_sequence_parallel_size": "sequences are not split between GPUs",
    "engine.ulysses_sequence_parallel_size": "sequences are not split between GPUs",
}
_COLUMNS: Mapping[str, tuple[str, ...]] = {
    "data.prompt_key": ("prompt",),
    "data.response_key": ("response",),
    "data.messages_key": ("messages",),
    "data.multiturn.messages_key": ("messages",),
}
"""Names of columns, and the ones that an SFT config reads."""
_BATCH = "data.train_batch_size"

_OLD_DEFAULTS: Mapping[str, Any] = {
    "data.train_batch_size": 256,
    "data.micro_batch_size_per_gpu": 4,
    "data.max_length": 1024,
    "model.enable_gradient_checkpointing": True,
    "model.lora_alpha": 16,
    "optim.lr": 1e-5,
    "optim.betas": [0.9, 0.95],
    "optim.weight_decay": 0.01,
    "optim.clip_grad": 1.0,
    "optim.warmup_steps_ratio": 0.1,
    "optim.lr_scheduler": "cosine",
    "trainer.total_epochs": 4,
    "trainer.seed": 1,
}
"""Of ``fsdp_sft_trainer`` in verl 0.5, where they differ from those of a config."""
_FROM_DEFAULTS = (
    *("data.micro_batch_size_per_gpu", "data.max_length", "model.enable_gradient_checkpointing"),
    *("model.lora_alpha", "optim.lr", "optim.betas", "optim.weight_decay", "optim.clip_grad"),
    *("optim.lr_warmup_steps_ratio", "optim.lr_scheduler_type", "trainer.total_epochs"),
    "trainer.seed",
)


def translate_sft(call: TrainerCall, stem: str) -> list[Row]:
    """Rows for every word of a call of an SFT trainer, and for defaults that differ from ours.

    ``stem`` names the folder of the checkpoints, if the script does not.
    """
    rows = [_translate(one) for one in call.overrides if one.key != _BATCH]
    chosen = {key: value for row in rows for key, value in row.values.items()}
    rows += _launcher(call, chosen)
    rows += _defaults(call, rows)
    rows += _batch(call, rows)
    rows += [*call.rows, *export_rows(call.exports, None)]
    if not any("training.output_dir" in row.values for row in rows):
        rows.append(
            Row("", None, {"training.output_dir": f"checkpoints/{stem}"}, "not in the script")
        )
    return rows


def _translate(override: Override) -> Row:
    source, line, value = override.key, override.line, override.value
    if (columns := _COLUMNS.get(source)) is not None:
        if value in columns or value == list(columns):
            return left_out(source, line, f"the column {columns[0]} is read without it")
        return left_out(source, line, f"rename the column {value} to {columns[0]}")
    if (target := _TARGETS.get(source)) is None:
        close = nearest_key(source, _TARGETS)
        nearest = f"; the nearest is {_TARGETS[close].key}" if close else ""
        unknown = GROUP if "." not in source else f"an SFT config has no such value{nearest}"
        return left_out(source, line, _NONE.get(source, unknown))
    try:
        converted = target.convert(value)
    except _NoCounterpartError as error:
        return left_out(source, line, str(error))
    if converted is None:
        return left_out(source, line, "null: the default")
    return checked(Row(source, line, {target.key: converted}), SFT)


def _launcher(call: TrainerCall, chosen: Mapping[str, Any]) -> list[Row]:
    """What torchrun decides: the number of GPUs."""
    text = call.launcher.get("nproc_per_node")
    rows = []
    if text is not None and "training.n_gpus" not in chosen:
        source = "torchrun --nproc_per_node"
        if text.isdecimal() and int(text):
            rows.append(Row(source, call.line, {"training.n_gpus": int(text)}))
        else:
            rows.append(left_out(source, call.line, "its number is not in the script: set n_gpus"))
    if call.launcher.get("nnodes", "1") not in ("1", "1:1"):
        rows.append(left_out("torchrun --nnodes", call.line, _NONE["trainer.nnodes"]))
    return rows


def _verl_defaults(call: TrainerCall) -> Mapping[str, Any]:
    return _OLD_DEFAULTS if call.trainer == "fsdp_sft" else dict(flatten(verl_sft_defaults()))


def _defaults(call: TrainerCall, rows: Sequence[Row]) -> list[Row]:
    """What the script leaves to verl and a config of ours would decide otherwise."""
    defaults, present = _verl_defaults(call), {key for row in rows for key in row.values}
    names = _OLD_DEFAULTS if call.trainer == "fsdp_sft" else _FROM_DEFAULTS
    if not any(row.values.get("lora.r") for row in rows):
        present.add("lora.alpha")
    if "training.max_steps" in present:
        present.add("training.num_train_epochs")
    note = "the default of the script's trainer"
    return [
        Row("", None, {_TARGETS[name].key: defaults[name]}, f"{note}: {name}")
        for name in names
        if name != _BATCH and _TARGETS[name].key not in present
    ]


def _batch(call: TrainerCall, rows: Iterable[Row]) -> list[Row]:
    """Gradient accumulation, from verl's batch of all GPUs together."""
    chosen = {key: value for row in rows for key, value in row.values.items()}
    given = next((one for one in reversed(call.overrides) if one.key == _BATCH), None)
    batch = _verl_defaults(call)[_BATCH] if given is None else given.value
    source, line = (_BATCH, given.line) if given else ("", None)
    per_step = chosen.get("training.per_device_train_batch_size", 0) * chosen.get(
        "training.n_gpus", 1
    )
    if not isinstance(batch, int) or per_step < 1 or batch < 1 or batch % per_step:
        why = f"{_BATCH}={batch} is no multiple of micro batch x GPUs, {per_step}"
        return [left_out(_BATCH, line, why)]
    note = f"batch {batch} = {per_step} x {batch // per_step}"
    return [Row(source, line, {"training.gradient_accumulation_steps": batch // per_step}, note)]


def sft_for_cpu(rows: Iterable[Row]) -> list[Row]:
    """The rows for a machine without a GPU: one process, which computes in float32.

    The batch stays what it is on all GPUs together.
    """
    kept, gpus = [], 1
    for row in rows:
        if "training.n_gpus" in row.values:
            gpus = row.values["training.n_gpus"]
            row = left_out(row.source, row.line, "for a CPU: training.n_gpus=1")
        if "training.bf16" not in row.values:
            kept.append(row)
    key, on_gpus = "training.gradient_accumulation_steps", f" on {gpus} GPUs" if gpus > 1 else ""
    kept = [
        Row(row.source, row.line, {key: row.values[key] * gpus}, f"{row.note}{on_gpus}")
        if key in row.values
        else row
        for row in kept
    ]
    values = {"grubrics.device": "cpu", "training.bf16": False}
    return [*kept, Row("", None, values, "--device cpu")]
