"""The categories of findings, with which every finding ID begins. Configs are checked by them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

IDS = Path(__file__).with_name("finding_ids.txt")

ALARMS = ("critical", "error", "warning")


@dataclass(frozen=True)
class Category:
    """What the verdict on a run needs to know about a category; every finding ID begins with one.

    ``part``: what fails here if a small run fails in the same way. ``external``: a cause that has
    nothing to do with the config, if there is one. ``resumable``: the run can be resumed unchanged.
    ``counts_when_finished``: an alert even of a run that finished.
    """

    name: str
    part: str
    external: str | None
    resumable: bool
    counts_when_finished: bool = False


ENGINE, JUDGE, REWARD, DATA = "the engine", "the judge", "the reward", "the data"
TOOLS = "the tools"

_CATEGORIES = (
    Category("checkpoint_corrupt_or_mismatch", ENGINE, None, resumable=False),
    Category("checkpoint_disk_full", ENGINE, "the disk", resumable=True),
    Category("collapse_entropy_or_length", ENGINE, None, resumable=False),
    Category("config_error", ENGINE, None, resumable=False),
    Category("context_length_exceeded", DATA, None, resumable=False, counts_when_finished=True),
    Category("cuda_device_assert", ENGINE, None, resumable=False),
    Category("cuda_oom_rollout", ENGINE, None, resumable=False),
    Category("cuda_oom_training", ENGINE, None, resumable=False),
    Category("data_missing_or_schema", DATA, None, resumable=False),
    Category("driver_toolkit_mismatch", ENGINE, None, resumable=False),
    Category("dtype_or_attention_error", ENGINE, None, resumable=False),
    Category("host_oom", ENGINE, None, resumable=True),
    Category("job_cancelled_or_interrupted", ENGINE, "a signal from outside", resumable=True),
    Category("judge_auth", JUDGE, "the judge", resumable=True, counts_when_finished=True),
    Category("judge_content_filter", JUDGE, None, resumable=True, counts_when_finished=True),
    Category("judge_parse_failure", JUDGE, "the judge", resumable=True, counts_when_finished=True),
    Category("judge_rate_limit", JUDGE, "the judge", resumable=True, counts_when_finished=True),
    Category(
        "judge_timeout_or_connection", JUDGE, "the judge", resumable=True, counts_when_finished=True
    ),
    Category("kl_or_grad_blowup", ENGINE, None, resumable=False),
    Category("lora_adapter_error", ENGINE, None, resumable=False),
    Category("loss_flat_no_learning", ENGINE, None, resumable=False),
    Category("loss_nan", ENGINE, None, resumable=False),
    Category("model_not_found_or_hub", ENGINE, "the model hub or the network", resumable=False),
    Category("nccl_timeout_or_error", ENGINE, "the network between the ranks", resumable=True),
    Category("permission_or_fd_limit", ENGINE, "the file system or its limits", resumable=False),
    Category("port_in_use", ENGINE, "a port that another process held", resumable=True),
    Category("python_env_import", ENGINE, None, resumable=False),
    Category("ray_start_or_worker_died", ENGINE, "a process of the run that died", resumable=True),
    Category("reward_function_error", REWARD, None, resumable=False, counts_when_finished=True),
    Category("reward_zero_or_flat", REWARD, None, resumable=False, counts_when_finished=True),
    Category("tokenizer_or_chat_template", DATA, None, resumable=False),
    Category("tool_calls", TOOLS, None, resumable=False, counts_when_finished=True),
    Category("training_setup_error", ENGINE, None, resumable=False),
    Category("vllm_init_failure", ENGINE, None, resumable=False),
    Category("wandb_auth", ENGINE, "W&B or the network", resumable=True),
    Category("wandb_network", ENGINE, "W&B or the network", resumable=True),
    Category("wandb_teardown_or_crash", ENGINE, "W&B or the network", resumable=True),
    Category("ablation_no_effect", ENGINE, None, resumable=False),
    Category("overfitting", ENGINE, None, resumable=False),
    Category("slow_step", ENGINE, None, resumable=False),
    Category("stalled", ENGINE, None, resumable=False),
    Category("validation_is_training", ENGINE, None, resumable=False),
)

CATEGORIES = {category.name: category for category in _CATEGORIES}


def find_category(name: str) -> Category:
    """Return the category; one that only another package's rules use blames the engine."""
    return CATEGORIES.get(name) or Category(name, ENGINE, None, resumable=False)


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
