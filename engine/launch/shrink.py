"""Shrink a config until it trains in minutes: small model, few rollouts, few steps, one process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from engine.base.errors import UsageError
from engine.checks.complete_change import Refusal, as_overrides, complete
from engine.config.compose import on_cpu
from engine.config.curriculum import KEY as CURRICULUM
from engine.config.load import Config
from engine.config.places import (
    MAKE_TINY_WORLD,
    TINY_WORLD,
    is_hub_name,
    local_folder,
    lora_rank,
    model_name,
)
from engine.config.unread import is_never_read
from engine.run.checkpoints.model_folder import missing_parts, parameter_count
from engine.run.finding import Change
from engine.run.host.environment import gpus
from engine.run.kinds import ByKind

HUB_MODEL = "Qwen/Qwen2.5-0.5B-Instruct"
SMALL_ON_GPU, SMALL_ON_CPU = 1_000_000_000, 50_000_000
"""A model with at most this many parameters is not replaced."""
FEW_ROLLOUTS, LOW_RANK = 4, 8

_ACTOR = "actor_rollout_ref.actor"
_ROLLOUT = "actor_rollout_ref.rollout"
_MODEL = "actor_rollout_ref.model"
_OFF = ("0", "", "false", "no", "off")
_ONE_PROCESS = "one process"

Values = Iterator[tuple[str, object, str]]
"""Key, value and the reason in one phrase."""


_NO_GUARD: tuple[tuple[str, object, str], ...] = tuple(
    (f"guard.{key}", value, "runs to its end without notifications")
    for key, value in (("stop_on", []), ("command", []), ("webhook_variable", None))
)
"""A small run is launched to show its problem: the guard neither stops it nor notifies."""


@dataclass(frozen=True)
class Size:
    """Size and folder of the small run. ``rows`` is the file to train on, if not the run's own."""

    steps: int
    batch: int
    folder: str
    name: str
    rows: str | None = None


def shrink_config(
    config: Config, size: Size, env: Mapping[str, str]
) -> tuple[Config, tuple[Change, ...]]:
    """Return the small config and every value that differs, each with its reason.

    UsageError if there is no small model, or no valid small config.
    """
    has_gpu = bool(gpus()) and config.get("grubrics.device") == "cuda"
    cpu_values = {} if has_gpu else on_cpu(config)
    wanted = {
        key: Change("config", key, value, config.get(key), reason)
        for key, value, reason in (*_SIZES[config.kind](config, size, env, has_gpu), *_NO_GUARD)
        if config.get(key) != value
        # The CPU platform sets these values itself if the config leaves them open.
        and (key not in cpu_values or config.is_chosen(key))
    }
    changes = complete(config, list(wanted.values()))
    if isinstance(changes, Refusal):
        raise UsageError(f"{config.path}: cannot be scaled down: {changes.reason}")
    return config.with_overrides(as_overrides(changes)), changes


def _grpo(config: Config, size: Size, env: Mapping[str, str], has_gpu: bool) -> Values:
    model = small_model(config, env, has_gpu)
    yield "grubrics.device", "cuda" if has_gpu else "cpu", "runs where there is no GPU"
    yield config.kind.model_key, model, "small"
    yield f"{_ROLLOUT}.name", "hf", "rules out the inference engine"
    yield "data.train_batch_size", size.batch, "few prompts"
    yield f"{_ROLLOUT}.n", min(FEW_ROLLOUTS, int(config.get(f"{_ROLLOUT}.n"))), "few rollouts"
    yield "trainer.total_training_steps", size.steps, "few steps"
    yield "trainer.total_epochs", size.steps, "does not end the run before its last step"
    yield from _adapters(config)
    yield "trainer.n_gpus_per_node", 1, _ONE_PROCESS
    yield "trainer.nnodes", 1, _ONE_PROCESS
    yield f"{_ROLLOUT}.tensor_model_parallel_size", 1, _ONE_PROCESS
    yield f"{_ACTOR}.ulysses_sequence_parallel_size", 1, _ONE_PROCESS
    if model != model_name(config):
        yield "data.filter_overlong_prompts", False, "another tokenizer: truncate, do not drop"
        yield "data.truncation", "left", "another tokenizer: truncate, do not drop"
        yield f"{_ROLLOUT}.max_model_len", None, "the small model's own limit"
    if size.rows is not None:
        yield "data.train_files", size.rows, "only the selected rows"
        for key in ("grubrics.shares", CURRICULUM):
            yield key, None, "only one file"
    yield "trainer.default_local_dir", size.folder, "its own folder"
    yield "trainer.experiment_name", size.name, "its own name"
    yield "trainer.logger", ["console"], "keeps the tracker clean"
    yield "trainer.resume_mode", "disable", "from the beginning"
    yield "trainer.val_before_train", False, "training only"
    yield "trainer.test_freq", -1, "training only"
    yield "trainer.save_freq", size.steps, "saves once, at the end"
    yield "trainer.max_actor_ckpt_to_keep", 1, "saves once, at the end"
    if not has_gpu:  # The values of the CPU platform, for keys that the config sets itself.
        for key, value in on_cpu(config).items():
            per_process = key.startswith(("trainer.n_gpus_per_node", "ray_kwargs."))
            if not per_process and not is_never_read(key, config.kind):
                yield key, value, "the CPU platform"
        yield f"{_ACTOR}.fsdp_config.model_dtype", "fp32", "the CPU platform"


def _adapters(config: Config) -> Values:
    for key in (f"{_MODEL}.lora_rank", f"{_MODEL}.lora.rank", "lora.r"):
        if lora_rank(config) and config.get(key):
            yield key, min(LOW_RANK, int(config.get(key))), "small"


def _sft(config: Config, size: Size, env: Mapping[str, str], has_gpu: bool) -> Values:
    yield "grubrics.device", "cuda" if has_gpu else "cpu", "runs where there is no GPU"
    yield config.kind.model_key, small_model(config, env, has_gpu), "small"
    yield "training.max_steps", size.steps, "few steps"
    yield "training.per_device_train_batch_size", size.batch, "few conversations"
    yield "training.gradient_accumulation_steps", 1, "few conversations"
    yield "training.n_gpus", 1, _ONE_PROCESS
    yield from _adapters(config)
    yield "training.output_dir", size.folder, "its own folder"
    yield "training.save_steps", -1, "saves once, at the end"
    yield "training.resume_from", None, "from the beginning"
    yield "logging.run_name", size.name, "its own name"
    yield "logging.report_to", ["console", "file"], "keeps the tracker clean"
    if not has_gpu:
        yield "training.bf16", False, "the CPU platform"


def small_model(config: Config, env: Mapping[str, str], has_gpu: bool) -> str:
    """The config's own model if it is small, else 0.5B from the hub, else the tiny demo's model."""
    name = model_name(config)
    folder = local_folder(name, env)
    if folder is not None and not missing_parts(folder):
        count = parameter_count(folder)
        if count is not None and count <= (SMALL_ON_GPU if has_gpu else SMALL_ON_CPU):
            return name
    offline = env.get("HF_HUB_OFFLINE", "0").lower() not in _OFF
    if has_gpu and (local_folder(HUB_MODEL, env) or (is_hub_name(name) and not offline)):
        return HUB_MODEL
    tiny = TINY_WORLD / "model"
    if not tiny.is_dir() or missing_parts(tiny):
        raise UsageError(f"{tiny}: no small model found. Create it: {MAKE_TINY_WORLD}")
    return str(Path(tiny))


_SIZES: ByKind[Callable[[Config, Size, Mapping[str, str], bool], Values]] = ByKind(
    "reproduce", grpo=_grpo, sft=_sft
)
