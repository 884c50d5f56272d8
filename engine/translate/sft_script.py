"""Translate the keys of verl's SFT trainers into the sections of an SFT config."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from engine.base.yaml_files import read_yaml
from engine.config.keys import nearest_key, verl_sft_defaults
from engine.run.kinds import SFT
from engine.run.trainer_settings import SETTINGS
from engine.translate.translation import Row, checked, left_out
from engine.translate.verl_script import GROUP, Override, TrainerCall, export_rows

_BATCH = "data.train_batch_size"
_TO = {key: setting.keys[SFT.name] for setting in SETTINGS.values() for key in setting.verl_sft}
"""The key of an SFT config for each key of the trainers."""


class _Rules(msgspec.Struct, frozen=True):
    """``sft_script.yaml``."""

    none: dict[str, str]
    columns: dict[str, str]
    old_defaults: dict[str, Any]
    differing: tuple[str, ...]


class _NoCounterpartError(Exception):
    """Why a value has no counterpart."""


def _convert(key: str, value: Any) -> Any:
    """The value that a key of an SFT config has for that of verl. _NoCounterpartError."""
    several = value if isinstance(value, list) else [value]
    match key:
        case "data.train_file" | "data.val_file":
            if len(several) != 1:
                raise _NoCounterpartError("an SFT config has one file; join them")
            return several[0]
        case "training.bf16":
            return str(value) in ("bf16", "bfloat16")
        case "training.lr_scheduler_type" if value not in ("cosine", "constant"):
            raise _NoCounterpartError(f"there is no schedule {value}; known: cosine, constant")
        case "logging.report_to":
            if known := [name for name in several if name in ("console", "file", "wandb")]:
                return known
            raise _NoCounterpartError("SFT logs to console, file or wandb")
        case "training.save_steps" if value is not None:
            if type(value) is not int:
                raise _NoCounterpartError(f"{value!r} is not a number of steps")
            return value if value > 0 else -1
        case "training.eval_steps" if type(value) is not int or value < 1:
            why = "without an interval, data.val_file is used after each epoch"
            raise _NoCounterpartError(why)
    return value


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
    source, line, value, rules = override.key, override.line, override.value, _rules()
    if (column := rules.columns.get(source)) is not None:
        if value in (column, [column]):
            return left_out(source, line, f"the column {column} is read without it")
        return left_out(source, line, f"rename the column {value} to {column}")
    if (target := _TO.get(source)) is None:
        close = nearest_key(source, _TO)
        nearest = f"; the nearest is {_TO[close]}" if close else ""
        unknown = GROUP if "." not in source else f"an SFT config has no such value{nearest}"
        return left_out(source, line, rules.none.get(source, unknown))
    try:
        converted = _convert(target, value)
    except _NoCounterpartError as error:
        return left_out(source, line, str(error))
    if converted is None:
        return left_out(source, line, "null: the default")
    return checked(Row(source, line, {target: converted}), SFT)


@cache
def _rules() -> _Rules:
    return msgspec.convert(read_yaml(Path(__file__).with_suffix(".yaml")), _Rules)


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
        rows.append(left_out("torchrun --nnodes", call.line, _rules().none["trainer.nnodes"]))
    return rows


def _verl_defaults(call: TrainerCall) -> Mapping[str, Any]:
    is_old = call.trainer == "fsdp_sft"
    return _rules().old_defaults if is_old else verl_sft_defaults()


def _defaults(call: TrainerCall, rows: Sequence[Row]) -> list[Row]:
    """What the script leaves to verl and a config of ours would decide otherwise."""
    defaults, present = _verl_defaults(call), {key for row in rows for key in row.values}
    if not any(row.values.get("lora.r") for row in rows):
        present.add("lora.alpha")
    if "training.max_steps" in present:
        present.add("training.num_train_epochs")
    note = "the default of the script's trainer"
    return [
        Row("", None, {_TO[name]: defaults[name]}, f"{note}: {name}")
        for name in (defaults if call.trainer == "fsdp_sft" else _rules().differing)
        if name != _BATCH and _TO[name] not in present
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
