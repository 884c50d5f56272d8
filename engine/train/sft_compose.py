"""An SFT recipe as the configuration of verl's SFT trainer; its data as the parquet verl reads."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from engine import jsonl
from engine.errors import UsageError
from engine.launch.keys import flatten, unflatten
from engine.launch.recipe import Recipe


@dataclass(frozen=True)
class SftPlan:
    """How many optimizer steps a recipe makes of its data."""

    batch: int
    steps_per_epoch: int
    total_steps: int

    @property
    def epochs(self) -> int:
        """Epochs that hold ``total_steps``, rounded up."""
        return -(-self.total_steps // self.steps_per_epoch)


def plan(recipe: Recipe, rows: int) -> SftPlan:
    """``training.max_steps`` overrides the epochs, as in the HF Trainer. Raises UsageError."""
    ranks = int(recipe.values["training.n_gpus"])
    per_rank = int(recipe.values["training.per_device_train_batch_size"]) * int(
        recipe.values["training.gradient_accumulation_steps"]
    )
    # Every rank drops what does not fill its last batch.
    steps = rows // ranks // per_rank
    if steps == 0:
        raise UsageError(
            f"{recipe.values['data.train_file']}: {rows} rows do not fill one batch of "
            f"{per_rank * ranks} (per_device_train_batch_size x gradient_accumulation_steps "
            "x n_gpus)"
        )
    limit = int(recipe.values["training.max_steps"])
    total = limit if limit > 0 else steps * int(recipe.values["training.num_train_epochs"])
    return SftPlan(per_rank * ranks, steps, total)


def read_conversations(path: Path) -> list[list[dict[str, str]]]:
    """The ``messages`` of a JSONL file. Raises UsageError that names file, line and fault."""
    if not path.is_file():
        raise UsageError(f"data.train_file={path}: no such file; prepare the SFT data first")
    conversations = []
    for number, line in enumerate(path.read_bytes().splitlines(), start=1):
        if line.strip():
            conversations.append(_messages(path, number, line))
    return conversations


def _messages(path: Path, number: int, line: bytes) -> list[dict[str, str]]:
    record = jsonl.parse_line(line)
    messages = None if record is None else record.get("messages")
    if not isinstance(messages, list) or not messages:
        raise UsageError(f"{path}:{number}: not a JSON object with a list 'messages'")
    for message in messages:
        if not isinstance(message, dict) or not {"role", "content"} <= message.keys():
            raise UsageError(f"{path}:{number}: a message without 'role' or 'content'")
    if messages[-1]["role"] != "assistant":
        raise UsageError(f"{path}:{number}: the last message is not the assistant's")
    return [{"role": str(m["role"]), "content": str(m["content"])} for m in messages]


def write_parquet(conversations: list[list[dict[str, str]]], path: Path) -> Path:
    pq.write_table(pa.table({"messages": conversations}), path)
    return path


def verl_config(
    recipe: Recipe, steps: SftPlan, train: Path, val: Path | None, resume_from: Path | None = None
) -> dict[str, Any]:
    """verl's ``sft_trainer_engine`` configuration."""
    from engine.train.snapshot_keys import compose_defaults

    values = dict(flatten(compose_defaults("sft_trainer_engine")))
    values |= (
        _data(recipe, steps, train, val) | _model(recipe) | _trainer(recipe, steps, resume_from)
    )
    if recipe.values["grubrics.device"] == "cpu":
        values |= ON_CPU
    return unflatten(values)


ON_CPU: dict[str, Any] = {
    "trainer.device": "cpu",
    "engine.strategy": "fsdp2",
    "engine.use_torch_compile": False,
    "model.use_remove_padding": False,
    "model.override_config.attn_implementation": "sdpa",
    "data.num_workers": 0,
}


def _data(recipe: Recipe, steps: SftPlan, train: Path, val: Path | None) -> dict[str, Any]:
    return {
        "data.train_files": str(train),
        "data.val_files": None if val is None else str(val),
        "data.train_batch_size": steps.batch,
        "data.micro_batch_size_per_gpu": recipe.values["training.per_device_train_batch_size"],
        "data.use_dynamic_bsz": False,
        "data.max_length": recipe.values["data.max_seq_length"],
        "data.truncation": "right",
        "data.ignore_input_ids_mismatch": recipe.values["data.ignore_input_ids_mismatch"],
    }


def _model(recipe: Recipe) -> dict[str, Any]:
    rank = int(recipe.values["lora.r"])
    if rank and float(recipe.values["lora.dropout"]) > 0:
        raise UsageError(
            f"{recipe.path}: lora.dropout={recipe.values['lora.dropout']}: verl's FSDP engine "
            "has no LoRA dropout; set it to 0"
        )
    precision = "bf16" if recipe.values["training.bf16"] else "fp32"
    return {
        "model.path": recipe.values["model.path"],
        "model.trust_remote_code": recipe.values["model.trust_remote_code"],
        "model.custom_chat_template": recipe.values["model.custom_chat_template"],
        "model.enable_gradient_checkpointing": recipe.values["training.gradient_checkpointing"],
        "model.lora_rank": rank,
        "model.lora_alpha": recipe.values["lora.alpha"],
        "model.target_modules": recipe.values["lora.target_modules"],
        "engine.mixed_precision.param_dtype": precision,
        "engine.seed": recipe.values["training.seed"],
        "optim.lr": recipe.values["training.learning_rate"],
        "optim.weight_decay": recipe.values["training.weight_decay"],
        "optim.clip_grad": recipe.values["training.max_grad_norm"],
        "optim.lr_warmup_steps_ratio": recipe.values["training.warmup_ratio"],
        "optim.lr_scheduler_type": recipe.values["training.lr_scheduler_type"],
    }


def _trainer(recipe: Recipe, steps: SftPlan, resume_from: Path | None) -> dict[str, Any]:
    loggers = list(recipe.values["logging.report_to"])
    return {
        "trainer.project_name": recipe.values["logging.project"],
        "trainer.experiment_name": recipe.values["logging.run_name"],
        "trainer.logger": loggers if "file" in loggers else [*loggers, "file"],
        "trainer.default_local_dir": recipe.values["training.output_dir"],
        "trainer.total_epochs": steps.epochs,
        "trainer.total_training_steps": steps.total_steps,
        "trainer.save_freq": recipe.values["training.save_steps"],
        "trainer.test_freq": "after_each_epoch" if recipe.get("data.val_file") else -1,
        "trainer.seed": recipe.values["training.seed"],
        "trainer.n_gpus_per_node": recipe.values["training.n_gpus"],
        "trainer.resume_mode": "disable" if resume_from is None else "resume_path",
        "trainer.resume_from_path": None if resume_from is None else str(resume_from),
    }
