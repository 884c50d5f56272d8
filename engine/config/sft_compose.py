"""Compose the configuration of verl's SFT trainer from an SFT config."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from engine.base.errors import UsageError
from engine.config.keys import flatten, tables, unflatten, verl_sft_defaults
from engine.config.load import Config
from engine.config.steps import sft_batch, step_plan
from engine.run.kinds import SFT
from engine.run.trainer_settings import SETTINGS

TRAIN_PARQUET = "sft_train.parquet"
VAL_PARQUET = "sft_val.parquet"
"""The files of an attempt that verl reads, converted from the JSONL files of the config."""

_BY_ROWS = ("trainer.total_epochs", "trainer.total_training_steps")
"""Keys whose values depend on the number of conversations."""


@dataclass(frozen=True)
class SftPlan:
    """The optimizer steps of a config on its data."""

    batch: int
    steps_per_epoch: int
    total_steps: int

    @property
    def epochs(self) -> int:
        """Epochs that hold ``total_steps``, rounded up."""
        return -(-self.total_steps // self.steps_per_epoch)


def plan(config: Config, rows: int) -> SftPlan:
    """``training.max_steps`` overrides the epochs, as in the HF Trainer. Raises UsageError."""
    batch, ranks = sft_batch(config), int(config.values["training.n_gpus"])
    # Every rank drops its incomplete last batch.
    steps = rows // ranks // (batch // ranks)
    if steps == 0:
        raise UsageError(
            f"{config.values['data.train_file']}: only {rows} rows for a batch of "
            f"{batch} (per_device_train_batch_size x gradient_accumulation_steps x n_gpus)"
        )
    limit = int(config.values["training.max_steps"])
    total = limit if limit > 0 else steps * int(config.values["training.num_train_epochs"])
    return SftPlan(batch, steps, total)


def verl_config(
    config: Config, steps: SftPlan, train: Path, val: Path | None, resume_from: Path | None = None
) -> dict[str, Any]:
    """verl's ``sft_trainer_engine`` configuration."""
    values = dict(verl_sft_defaults())
    same = [setting for setting in SETTINGS.values() if setting.verl_sft]
    values |= {setting.verl_sft[0]: config.values[setting.keys[SFT.name]] for setting in same}
    if config.values["lora.r"] and float(config.values["lora.dropout"]) > 0:
        raise UsageError(
            f"{config.path}: lora.dropout={config.values['lora.dropout']}: verl's FSDP engine "
            "has no LoRA dropout; set it to 0"
        )
    loggers = list(config.values["logging.report_to"])
    interval = config.get("training.eval_steps") or "after_each_epoch"
    values |= {
        "data.train_files": str(train),
        "data.val_files": None if val is None else str(val),
        "data.train_batch_size": steps.batch,
        "data.use_dynamic_bsz": False,
        "data.truncation": "right",
        "engine.mixed_precision.param_dtype": "bf16" if config.values["training.bf16"] else "fp32",
        "engine.seed": config.values["training.seed"],
        "engine.full_determinism": config.values["grubrics.deterministic"],
        "optim.override_optimizer_config": {"eps": config.values["training.eps"]},
        "trainer.logger": loggers if "file" in loggers else [*loggers, "file"],
        "trainer.total_epochs": steps.epochs,
        "trainer.total_training_steps": steps.total_steps,
        "trainer.test_freq": interval if config.get("data.val_file") else -1,
        "trainer.resume_mode": "disable" if resume_from is None else "resume_path",
        "trainer.resume_from_path": None if resume_from is None else str(resume_from),
    }
    if config.values["grubrics.device"] == "cpu":
        values |= {**WITHOUT_FLASH_ATTENTION, **tables()["on_cpu"]["sft"]}
    elif find_spec("flash_attn") is None:
        values |= WITHOUT_FLASH_ATTENTION
    return unflatten(values)


def sft_values(config: Config, attempt_dir: Path) -> dict[str, Any]:
    """Return ``verl_config`` by dotted key with its references resolved, as the trainer gets it.

    The numbers of steps and epochs are left out while the training file cannot be read.
    """
    data = step_plan(config)
    enough = data is not None and data.rows >= data.batch
    steps = plan(config, data.rows) if data and enough else SftPlan(sft_batch(config), 1, 1)
    val = attempt_dir / VAL_PARQUET if config.get("data.val_file") else None
    checkpoint = config.get("training.resume_from")
    resume_from = None if checkpoint is None else Path(checkpoint)
    tree = verl_config(config, steps, attempt_dir / TRAIN_PARQUET, val, resume_from)
    resolved = OmegaConf.to_container(OmegaConf.create(tree), resolve=True)
    assert isinstance(resolved, dict)
    values = flatten({str(key): value for key, value in resolved.items()})
    return {key: value for key, value in values if enough or key not in _BY_ROWS}


WITHOUT_FLASH_ATTENTION: dict[str, Any] = {
    "model.use_remove_padding": False,
    "model.override_config.attn_implementation": "sdpa",
}
"""verl requires FlashAttention 2 otherwise; sdpa cannot separate packed conversations."""
