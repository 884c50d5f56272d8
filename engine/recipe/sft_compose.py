"""Compose the configuration of verl's SFT trainer from an SFT config."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from engine.base.errors import UsageError
from engine.recipe.keys import flatten, tables, unflatten, verl_sft_defaults
from engine.recipe.recipe import Recipe
from engine.recipe.steps import sft_batch, step_plan

TRAIN_PARQUET = "sft_train.parquet"
VAL_PARQUET = "sft_val.parquet"
"""The files of an attempt that verl reads, converted from the JSONL files of the recipe."""

_BY_ROWS = ("trainer.total_epochs", "trainer.total_training_steps")
"""Keys whose values depend on the number of conversations."""


@dataclass(frozen=True)
class SftPlan:
    """The optimizer steps of a recipe on its data."""

    batch: int
    steps_per_epoch: int
    total_steps: int

    @property
    def epochs(self) -> int:
        """Epochs that hold ``total_steps``, rounded up."""
        return -(-self.total_steps // self.steps_per_epoch)


def plan(recipe: Recipe, rows: int) -> SftPlan:
    """``training.max_steps`` overrides the epochs, as in the HF Trainer. Raises UsageError."""
    batch, ranks = sft_batch(recipe), int(recipe.values["training.n_gpus"])
    # Every rank drops its incomplete last batch.
    steps = rows // ranks // (batch // ranks)
    if steps == 0:
        raise UsageError(
            f"{recipe.values['data.train_file']}: only {rows} rows for a batch of "
            f"{batch} (per_device_train_batch_size x gradient_accumulation_steps x n_gpus)"
        )
    limit = int(recipe.values["training.max_steps"])
    total = limit if limit > 0 else steps * int(recipe.values["training.num_train_epochs"])
    return SftPlan(batch, steps, total)


def verl_config(
    recipe: Recipe, steps: SftPlan, train: Path, val: Path | None, resume_from: Path | None = None
) -> dict[str, Any]:
    """verl's ``sft_trainer_engine`` configuration."""
    values = dict(flatten(verl_sft_defaults()))
    values |= (
        _data(recipe, steps, train, val) | _model(recipe) | _trainer(recipe, steps, resume_from)
    )
    if recipe.values["grubrics.device"] == "cpu":
        values |= {**WITHOUT_FLASH_ATTENTION, **tables()["on_cpu"]["sft"]}
    elif find_spec("flash_attn") is None:
        values |= WITHOUT_FLASH_ATTENTION
    return unflatten(values)


def sft_values(recipe: Recipe, attempt_dir: Path) -> dict[str, Any]:
    """Return ``verl_config`` by dotted key with its references resolved, as the trainer gets it.

    The numbers of steps and epochs are left out while the training file cannot be read.
    """
    data = step_plan(recipe)
    enough = data is not None and data.rows >= data.batch
    steps = plan(recipe, data.rows) if data and enough else SftPlan(sft_batch(recipe), 1, 1)
    val = attempt_dir / VAL_PARQUET if recipe.get("data.val_file") else None
    checkpoint = recipe.get("training.resume_from")
    resume_from = None if checkpoint is None else Path(checkpoint)
    tree = verl_config(recipe, steps, attempt_dir / TRAIN_PARQUET, val, resume_from)
    resolved = OmegaConf.to_container(OmegaConf.create(tree), resolve=True)
    assert isinstance(resolved, dict)
    values = flatten({str(key): value for key, value in resolved.items()})
    return {key: value for key, value in values if enough or key not in _BY_ROWS}


WITHOUT_FLASH_ATTENTION: dict[str, Any] = {
    "model.use_remove_padding": False,
    "model.override_config.attn_implementation": "sdpa",
}
"""verl requires FlashAttention 2 otherwise; sdpa cannot separate packed conversations."""


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
        "engine.full_determinism": recipe.values["grubrics.deterministic"],
        "optim.lr": recipe.values["training.learning_rate"],
        "optim.weight_decay": recipe.values["training.weight_decay"],
        "optim.clip_grad": recipe.values["training.max_grad_norm"],
        "optim.lr_warmup_steps_ratio": recipe.values["training.warmup_ratio"],
        "optim.lr_scheduler_type": recipe.values["training.lr_scheduler_type"],
        "optim.min_lr_ratio": recipe.values["training.min_lr_ratio"],
        "optim.betas": recipe.values["training.betas"],
        "optim.override_optimizer_config": {"eps": recipe.values["training.eps"]},
    }


def _trainer(recipe: Recipe, steps: SftPlan, resume_from: Path | None) -> dict[str, Any]:
    loggers = list(recipe.values["logging.report_to"])
    interval = recipe.get("training.eval_steps") or "after_each_epoch"
    return {
        "trainer.project_name": recipe.values["logging.project"],
        "trainer.experiment_name": recipe.values["logging.run_name"],
        "trainer.logger": loggers if "file" in loggers else [*loggers, "file"],
        "trainer.default_local_dir": recipe.values["training.output_dir"],
        "trainer.total_epochs": steps.epochs,
        "trainer.total_training_steps": steps.total_steps,
        "trainer.save_freq": recipe.values["training.save_steps"],
        "trainer.test_freq": interval if recipe.get("data.val_file") else -1,
        "trainer.seed": recipe.values["training.seed"],
        "trainer.n_gpus_per_node": recipe.values["training.n_gpus"],
        "trainer.resume_mode": "disable" if resume_from is None else "resume_path",
        "trainer.resume_from_path": None if resume_from is None else str(resume_from),
    }
