"""Check values beyond their type: the choices that verl lists, and the ranges of its numbers.

verl checks few of these before its workers are up, and several never: a negative clip ratio or
learning rate increases the loss. The choices that verl's code lists are in the snapshot; ranges
come from verl 0.9.1 or from the meaning of the value, as noted beside them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from engine.base.errors import nearest
from engine.recipe.keys import verl_choices


@dataclass(frozen=True)
class Range:
    """Numbers from ``low`` to ``high``; ``open_low`` excludes ``low`` itself.

    ``whole`` requires an integer. ``besides`` holds special values and their meanings.
    """

    low: float
    high: float | None = None
    open_low: bool = False
    whole: bool = False
    besides: Mapping[float, str] | None = None

    def complaint(self, value: Any) -> str | None:
        """Return what the value must be, or None when it is allowed. Null always is."""
        if value is None or value in (self.besides or {}):
            return None
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not math.isfinite(value) or (self.whole and value != int(value)):
            return str(self)
        is_above = value > self.low if self.open_low else value >= self.low
        return None if is_above and (self.high is None or value <= self.high) else str(self)

    def __str__(self) -> str:
        start = f"above {self.low}" if self.open_low else f"at least {self.low}"
        end = "" if self.high is None else f" and at most {self.high}"
        integer = "an integer of " if self.whole and not self.open_low else ""
        special = "".join(
            f", or {number:g} ({meaning})" for number, meaning in (self.besides or {}).items()
        )
        return f"{integer}{start}{end}{special}"


@dataclass(frozen=True)
class Choice:
    """One of ``names``. ``several`` also allows a list of them, ``listed`` refuses a text."""

    names: tuple[str, ...]
    several: bool = False
    listed: bool = False

    def complaint(self, value: Any) -> str | None:
        if self.listed and isinstance(value, str):
            return f"a list, [{value}]"
        items = value if self.several and isinstance(value, list) else [value]
        unknown = next((item for item in items if item not in (None, *self.names)), None)
        if unknown is None:
            return None
        by_lower = {name.lower(): name for name in self.names}
        close = nearest(str(unknown).lower(), by_lower)
        hint = f"; did you mean '{by_lower[close]}'?" if close else ""
        return f"one of {', '.join(self.names)}{hint}"

    def __str__(self) -> str:
        names = ", ".join(self.names)
        return f"a list of {names}" if self.listed else f"one of {names}"


@dataclass(frozen=True)
class _Listed:
    """Some of ``names`` in one text, separated by commas."""

    names: tuple[str, ...]

    def complaint(self, value: Any) -> str | None:
        if value is None:
            return None
        return Choice(self.names, several=True).complaint(
            [name.strip() for name in str(value).split(",")]
        )

    def __str__(self) -> str:
        return f"some of {', '.join(self.names)}; with commas between them"


@dataclass(frozen=True)
class _Betas:
    """Two decay rates of Adam."""

    def complaint(self, value: Any) -> str | None:
        rates = value if isinstance(value, Sequence) and not isinstance(value, str) else ()
        fits = len(rates) == 2 and all(
            isinstance(rate, int | float) and 0 <= rate < 1 for rate in rates
        )
        return None if fits else str(self)

    def __str__(self) -> str:
        return "two numbers of at least 0 and below 1"


@dataclass(frozen=True)
class _Threshold:
    """The highest importance weight, or the lowest and the highest one as ``0.5_5.0``."""

    def complaint(self, value: Any) -> str | None:
        if isinstance(value, str) and re.fullmatch(r"[\d.]+(?:_[\d.]+)?", value):
            try:
                bounds = [float(text) for text in value.split("_")]
            except ValueError:
                return str(self)
            return None if 0 < bounds[0] <= bounds[-1] else str(self)
        return None if _POSITIVE.complaint(value) is None else str(self)

    def __str__(self) -> str:
        return "above 0, or two such numbers as 0.5_5.0"


Allowed = Range | Choice | _Listed | _Betas | _Threshold

_POSITIVE = Range(0, open_low=True)
_NOT_NEGATIVE = Range(0)
_SHARE = Range(0, 1)
_COUNT = Range(1, whole=True)
_EVERY = Range(1, whole=True, besides={-1: "never"})
_DTYPES = Choice(("fp32", "float32", "bf16", "bfloat16", "fp16", "float16"))
_ROLLOUT_DTYPES = Choice(("auto", "half", "float16", "bfloat16", "float", "float32"))
_SEED = Range(0, 2**32 - 1, whole=True)  # numpy takes no other
_CONTENTS = Choice(("model", "optimizer", "extra", "hf_model"), several=True, listed=True)
_LOAD_FORMATS = Choice(
    (
        # vLLM and SGLang
        *("auto", "dummy", "safetensors", "fastsafetensors", "pt", "npcache", "sharded_state"),
        *("gguf", "bitsandbytes", "runai_streamer", "runai_streamer_sharded", "instanttensor"),
        *("hf", "mistral", "tensorizer", "modelexpress"),  # vLLM alone
        *("layered", "flash_rl", "remote", "remote_instance", "private"),  # SGLang alone
    )
)
_REJECTIONS = (
    *("token_k1", "token_k2", "token_k3"),
    *("seq_sum_k1", "seq_sum_k2", "seq_sum_k3", "seq_mean_k1", "seq_mean_k2", "seq_mean_k3"),
    *("seq_max_k2", "seq_max_k3"),
)
"""``SUPPORTED_ROLLOUT_RS_OPTIONS`` of verl's ``rollout_corr_helper.py``."""


def complaint(key: str, value: Any) -> str | None:
    """Return what a value must be instead, or None when verl accepts it."""
    allowed = _find_rule(key)
    return None if allowed is None else allowed.complaint(value)


def expected(key: str) -> str | None:
    """Return what the values of a key must be, or None when any value of its type will do."""
    allowed = _find_rule(key)
    return None if allowed is None else str(allowed)


def _find_rule(key: str) -> Allowed | None:
    rules = (*_choices().items(), *_RANGES.items())
    return next((rule for pattern, rule in rules if re.fullmatch(pattern, key)), None)


_ROLE = r"(?:actor_rollout_ref\.actor|critic)"
_ACTOR = r"actor_rollout_ref\.actor"
_ROLLOUT = r"actor_rollout_ref\.rollout"


@cache
def _choices() -> dict[str, Allowed]:
    """Return the choices by a pattern of the whole key."""
    listed = {name: tuple(names) for name, names in verl_choices().items()}
    kl = Choice((*listed["kl_penalty"], *(f"{name}+" for name in listed["kl_penalty"])))
    schedules = Choice(listed["lr_scheduler_type"])
    return {
        r"algorithm\.adv_estimator": Choice(listed["adv_estimator"]),
        rf"{_ACTOR}\.policy_loss\.loss_mode": Choice(listed["loss_mode"]),
        rf"{_ROLE}\.loss_agg_mode": Choice(listed["loss_agg_mode"]),
        rf"{_ACTOR}\.kl_loss_type|algorithm\.kl_penalty": kl,
        rf"{_ROLE}\.optim\.(?:lr_scheduler_type|warmup_style)": schedules,
        r"trainer\.logger": Choice(listed["logger"], several=True),
        r"trainer\.v1\.trainer_mode": Choice(listed["trainer_mode"]),
        rf"(?:{_ROLE}|actor_rollout_ref\.ref)\.strategy": Choice(listed["strategy"]),
        # trainer_base.py, replay_buffer.py, core_algos.py and the rollout registry.
        r"trainer\.resume_mode": Choice(("auto", "disable", "resume_path")),
        r"trainer\.v1\.sampler\.max_off_policy_strategy": Choice(("drop", "wait")),
        r"algorithm\.kl_ctrl\.type": Choice(("fixed", "adaptive")),
        r"algorithm\.rollout_correction\.rollout_is": Choice(("token", "sequence")),
        r"algorithm\.rollout_correction\.loss_type": Choice(("ppo_clip", "reinforce")),
        r"algorithm\.rollout_correction\.rollout_rs": _Listed(_REJECTIONS),
        r"reward\.reward_manager\.source": Choice(("register", "importlib")),
        r"data\.truncation": Choice(("left", "right", "middle", "error")),
        rf"{_ROLLOUT}\.name": Choice(("hf", "vllm", "sglang", "trtllm")),
        rf"{_ROLLOUT}\.mode": Choice(("async",)),
        rf"{_ROLLOUT}\.dtype": _ROLLOUT_DTYPES,
        r".+\.load_format": _LOAD_FORMATS,
        r".+\.checkpoint\.(?:save|load)_contents": _CONTENTS,
        r"transfer_queue\.backend\.storage_backend": Choice(
            ("SimpleStorage", "MooncakeStore", "Yuanrong", "RayStore")
        ),
        r"global_profiler\.tool": Choice(
            ("nsys", "npu", "torch", "torch_memory", "precision_debugger")
        ),
        rf"{_ROLLOUT}\.multi_turn\.tool_response_truncate_side": Choice(
            ("left", "middle", "right")
        ),
        r".+\.(?:model_dtype|(?:param|reduce|buffer)_dtype)": _DTYPES,
    }


_RANGES: dict[str, Allowed] = {
    rf"{_ROLE}\.optim\.(?:lr|weight_decay)": _NOT_NEGATIVE,
    rf"{_ROLE}\.(?:grad_clip|optim\.clip_grad|optim\.num_cycles)": _POSITIVE,
    rf"{_ROLE}\.optim\.(?:lr_warmup_steps_ratio|min_lr_ratio)": _SHARE,
    rf"{_ROLE}\.optim\.lr_warmup_steps": Range(0, whole=True, besides={-1: "by ratio"}),
    rf"{_ROLE}\.optim\.betas": _Betas(),
    rf"{_ACTOR}\.clip_ratio(?:_low|_high)?|critic\.cliprange_value": _NOT_NEGATIVE,
    rf"{_ACTOR}\.clip_ratio_c": Range(1, open_low=True),  # asserted in core_algos.py
    rf"{_ACTOR}\.(?:tau_pos|tau_neg|loss_scale_factor|policy_loss\.dro_beta)": _POSITIVE,
    rf"{_ACTOR}\.policy_loss\.(?:clip_cov_ratio|kl_cov_ratio)": _SHARE,
    rf"{_ACTOR}\.(?:kl_loss_coef|policy_loss\.ppo_kl_coef)": _NOT_NEGATIVE,
    r"algorithm\.kl_ctrl\.kl_coef": _NOT_NEGATIVE,
    r"algorithm\.kl_ctrl\.(?:horizon|target_kl)": _POSITIVE,
    r"algorithm\.(?:gamma|lam)": _SHARE,
    r"algorithm\.rollout_correction\.rollout_is_threshold": _Threshold(),
    r"(?:grubrics|training|data)\.seed|.+\.(?:rollout\.seed|data_loader_seed)": _SEED,
    r"algorithm\.filter_groups\.max_inflight_gen_batches": _COUNT,
    rf"{_ROLE}\.(?:ppo_epochs|ppo_mini_batch_size|ulysses_sequence_parallel_size)": _COUNT,
    rf"{_ROLE}\.ppo_micro_batch_size(?:_per_gpu)?": _COUNT,
    rf"{_ROLE}\.ppo_max_token_len_per_gpu": _COUNT,
    rf"{_ROLLOUT}\.(?:val_kwargs\.)?temperature": _NOT_NEGATIVE,
    rf"{_ROLLOUT}\.(?:val_kwargs\.)?top_p": Range(0, 1, open_low=True),
    rf"{_ROLLOUT}\.(?:val_kwargs\.)?top_k": Range(0, whole=True, besides={-1: "all"}),
    rf"{_ROLLOUT}\.(?:val_kwargs\.)?n": _COUNT,
    rf"{_ROLLOUT}\.(?:repetition_penalty)": _POSITIVE,
    rf"{_ROLLOUT}\.gpu_memory_utilization": Range(0, 1, open_low=True),
    rf"{_ROLLOUT}\.(?:\w+_parallel_size|max_num_seqs|max_num_batched_tokens|prompt_length"
    r"|response_length|agent\.num_workers|log_prob_micro_batch_size_per_gpu)": _COUNT,
    r"actor_rollout_ref\.model\.lora_rank": Range(0, whole=True),
    r"actor_rollout_ref\.model\.lora_alpha": _POSITIVE,
    r"data\.(?:train_batch_size|max_prompt_length|max_response_length|gen_batch_size)": _COUNT,
    r"data\.(?:train|val)_max_samples": Range(1, whole=True, besides={-1: "all"}),
    r"data\.dataloader_num_workers": Range(0, whole=True),
    r"reward\.num_workers": _COUNT,
    r"trainer\.(?:nnodes|n_gpus_per_node|total_epochs|total_training_steps)": _COUNT,
    r"trainer\.(?:save_freq|test_freq)": _EVERY,
    r"trainer\.(?:critic_warmup|log_val_generations)": Range(0, whole=True),
    r"trainer\.max_(?:actor|critic)_ckpt_to_keep": _COUNT,
    r"trainer\.v1\.sampler\.max_off_policy_threshold": _COUNT,
    r"trainer\.v1\.\w+\.num_warmup_batches": _NOT_NEGATIVE,
    r"trainer\.v1\.separate_async\.parameter_sync_step": _COUNT,
    # Keys of our SFT sections; their other limits are in engine.recipe.schema.
    r"training\.max_steps": Range(1, whole=True, besides={-1: "every epoch"}),
    r"training\.save_steps": _EVERY,
    r"training\.weight_decay": _NOT_NEGATIVE,
    r"training\.max_grad_norm": _POSITIVE,
    r"lora\.alpha": _POSITIVE,
}
"""By a pattern of the whole key."""
