"""The categories of findings, with which every finding ID begins. Configs are checked by them."""

from __future__ import annotations

from functools import cache
from pathlib import Path

IDS = Path(__file__).with_name("finding_ids.txt")

ALARMS = ("critical", "error", "warning")

FAILURES = (
    "checkpoint_corrupt_or_mismatch", "checkpoint_disk_full", "collapse_entropy_or_length",
    "config_error", "context_length_exceeded", "cuda_device_assert", "cuda_oom_rollout",
    "cuda_oom_training", "data_missing_or_schema", "driver_toolkit_mismatch",
    "dtype_or_attention_error", "host_oom", "job_cancelled_or_interrupted", "judge_auth",
    "judge_content_filter", "judge_parse_failure", "judge_rate_limit",
    "judge_timeout_or_connection", "kl_or_grad_blowup", "lora_adapter_error",
    "loss_flat_no_learning", "loss_nan", "model_not_found_or_hub", "nccl_timeout_or_error",
    "permission_or_fd_limit", "port_in_use", "python_env_import", "ray_start_or_worker_died",
    "reward_function_error", "reward_zero_or_flat", "tokenizer_or_chat_template",
    "training_setup_error", "vllm_init_failure", "wandb_auth", "wandb_network",
    "wandb_teardown_or_crash",
)  # fmt: skip
"""The usual categories of failures in post-training."""

WITHOUT_FAILURE = (
    "ablation_no_effect", "overfitting", "slow_step", "stalled", "validation_is_training",
)  # fmt: skip
"""For runs that do not fail: without effect, slow, stalled, or with misleading metrics."""

CATEGORIES = (*FAILURES, *WITHOUT_FAILURE)


def alternatives_to(name: str) -> tuple[str, ...]:
    """Return the names to choose from if no finding has this name; empty if one does."""
    if name in ALARMS or name in CATEGORIES:
        return ()
    if name.partition(".")[0] not in CATEGORIES:
        return (*ALARMS, *CATEGORIES)
    ids = finding_ids()
    return () if name in ids or name in _plugin_ids() else ids


@cache
def finding_ids() -> tuple[str, ...]:
    """Return the IDs of all rules, from the generated list: loading the rules would be slow."""
    return tuple(IDS.read_text(encoding="utf-8").split())


def _plugin_ids() -> frozenset[str]:
    """Return the IDs of the symptoms that rules of other packages list."""
    from engine.base.plugins import load  # Needed only for a name that is unknown so far.
    from engine.findings.symptom import METRIC_RULES, REWARD_RULES, Rule

    rules = (rule for group in (METRIC_RULES, REWARD_RULES) for rule in load(group, Rule).objects)
    return frozenset(symptom.id for rule in rules for symptom in rule.symptoms)
