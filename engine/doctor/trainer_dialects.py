"""Fixes with the arguments of the trainer that wrote a log.

Rules name changes by this project's keys, most of which are verl's. For an external log a change
uses that trainer's argument; if the trainer has none, only the text of the fix is left. Whether a
value is too large or too small depends on the present one, which an external log does not show:
such an argument is only named.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from enum import StrEnum
from pathlib import Path

from engine.base import files
from engine.doctor.text.facts import Phase
from engine.findings.finding import Change, Finding, Remedy
from engine.findings.remedy_builders import CLIPPING
from engine.runs.kinds import COMMAND, GRPO
from engine.runs.rundir import RunDir


class Framework(StrEnum):
    OURS = "ours"
    VERL = "verl"
    TRL = "trl"
    HF = "hf"
    OTHER = "other"


_END = 256 * 1024
"""Bytes that are read at either end of a file."""
_MARKS = {
    Framework.VERL: re.compile(
        rb"\bverl/(?:trainer|workers|single_controller)|\bverl\.(?:trainer|workers)"
        rb"|actor_rollout_ref|\bstep:\d+ - (?:actor|critic|global|perf|train|training|timing_s|val)"
        rb"|\"data\": ?\{\"(?:actor|critic|training)/"
    ),
    Framework.TRL: re.compile(
        rb"\btrl[/.](?:trainer[/.](?:grpo|rloo)|scripts|core|extras)|\btrl (?:grpo|vllm-serve)\b"
        rb"|\b(?:GRPO|RLOO)(?:Trainer|Config)\b"
        rb"|[\"'](?:reward_std|rewards/(?!chosen|rejected|margins|accurac)\w+|completions/\w+)[\"']"
    ),
    Framework.HF: re.compile(
        rb"\btrl[/.]trainer\b|\btrl (?:sft|dpo)\b|\b(?:SFT|DPO|KTO)(?:Trainer|Config)\b"
        rb"|[\"'](?:rewards/\w+|mean_token_accuracy)[\"']"
        rb"|transformers[/.]trainer\b|\bTrainingArguments\b|['\"]train_runtime['\"]"
        rb"|['\"]loss['\"]: ?['\"]?[\d.e-]+['\"]?, ?['\"](?:grad_norm|learning_rate)['\"]"
        rb"|['\"]log_history['\"]"
    ),
}
"""The first match counts: logs of verl and TRL also mention transformers. ``TRL`` is what samples
responses; its other trainers have the arguments of transformers."""

_ACTOR, _ROLLOUT = "actor_rollout_ref.actor", "actor_rollout_ref.rollout"
_HF_ARGUMENTS: Mapping[str, tuple[str, object]] = {
    f"{_ACTOR}.ppo_micro_batch_size_per_gpu": ("per_device_train_batch_size", None),
    f"{_ACTOR}.fsdp_config.model_dtype": ("bf16", True),
    f"{_ACTOR}.optim.lr": ("learning_rate", None),
    "actor_rollout_ref.model.enable_gradient_checkpointing": ("gradient_checkpointing", None),
    "trainer.max_actor_ckpt_to_keep": ("save_total_limit", None),
    "data.val_batch_size": ("per_device_eval_batch_size", None),
    "data.dataloader_num_workers": ("dataloader_num_workers", None),
}
"""Our key -> the argument, and its value if it differs from ours."""
_TRL_ARGUMENTS: Mapping[str, tuple[str, object]] = {
    **_HF_ARGUMENTS,
    f"{_ROLLOUT}.gpu_memory_utilization": ("vllm_gpu_memory_utilization", None),
    f"{_ROLLOUT}.max_model_len": ("vllm_max_model_length", None),
    f"{_ROLLOUT}.n": ("num_generations", None),
    f"{_ACTOR}.kl_loss_coef": ("beta", None),
    "data.max_response_length": ("max_completion_length", None),
}
_ARGUMENTS = {Framework.TRL: _TRL_ARGUMENTS, Framework.HF: _HF_ARGUMENTS}
_SHARE = f"{_ROLLOUT}.gpu_memory_utilization"
_RELATIVE = frozenset({_SHARE, f"{_ROLLOUT}.max_model_len"})
"""Keys whose better value depends on the present one, which the log does not show."""
_KEY_OF_TITLE: Mapping[str, str] = {
    "Lower the learning rate": f"{_ACTOR}.optim.lr",
    "Multiply the learning rate": f"{_ACTOR}.optim.lr",
    "Set the learning rate": f"{_ACTOR}.optim.lr",
    "Add a KL loss": f"{_ACTOR}.kl_loss_coef",
    "Allow longer responses": "data.max_response_length",
    "Sample more rollouts": f"{_ROLLOUT}.n",
    "Raise the weight of the KL loss": f"{_ACTOR}.kl_loss_coef",
}
"""The beginning of a fix without a value -> its key."""
_MICRO_BATCH = f"{_ACTOR}.ppo_micro_batch_size_per_gpu"
_SAME_BATCH = "the batch stays the same if gradient_accumulation_steps rises by the same factor"
_SMALLER: Mapping[Framework, str] = {
    Framework.HF: _SAME_BATCH,
    Framework.TRL: f"{_SAME_BATCH}; in GRPO it must stay a multiple of num_generations",
    Framework.OTHER: "raise gradient accumulation by the same factor, else the batch shrinks",
}
"""The effect of a smaller micro batch if the batch is a number of them (verl divides a batch)."""
_MODEL = "actor_rollout_ref.model"
_REF = "actor_rollout_ref.ref"
_NO_GRADIENTS = dict.fromkeys(
    (f"{_MODEL}.enable_gradient_checkpointing", "training.gradient_checkpointing"), None
)
_EVALUATED = "data.val_batch_size"
_NO_BATCH = {
    **_NO_GRADIENTS,
    **dict.fromkeys((f"{_ACTOR}.use_dynamic_bsz", "training.per_device_train_batch_size"), None),
}
_OF_PHASE: Mapping[str, Mapping[str, str | None]] = {
    Phase.CRITIC: {
        f"{_ACTOR}.ppo_micro_batch_size_per_gpu": "critic.ppo_micro_batch_size_per_gpu",
        f"{_ACTOR}.use_dynamic_bsz": "critic.use_dynamic_bsz",
        f"{_MODEL}.enable_gradient_checkpointing": "critic.model.enable_gradient_checkpointing",
    },
    Phase.VALUES: {
        f"{_ACTOR}.ppo_micro_batch_size_per_gpu": "critic.forward_micro_batch_size_per_gpu",
        f"{_ACTOR}.use_dynamic_bsz": "critic.use_dynamic_bsz",
        **_NO_GRADIENTS,
    },
    Phase.REFERENCE: {
        f"{_ACTOR}.ppo_micro_batch_size_per_gpu": f"{_REF}.log_prob_micro_batch_size_per_gpu",
        f"{_ACTOR}.use_dynamic_bsz": f"{_REF}.log_prob_use_dynamic_bsz",
        **_NO_GRADIENTS,
    },
    Phase.LOG_PROBS: {
        f"{_ACTOR}.ppo_micro_batch_size_per_gpu": f"{_ROLLOUT}.log_prob_micro_batch_size_per_gpu",
        f"{_ACTOR}.use_dynamic_bsz": f"{_ROLLOUT}.log_prob_use_dynamic_bsz",
        **_NO_GRADIENTS,
    },
    Phase.REWARD_MODEL: {
        f"{_ACTOR}.ppo_micro_batch_size_per_gpu": "reward_model.micro_batch_size_per_gpu",
        f"{_ACTOR}.use_dynamic_bsz": "reward_model.use_dynamic_bsz",
        **_NO_GRADIENTS,
    },
    Phase.SAVE: {f"{_ACTOR}.ppo_micro_batch_size_per_gpu": None, **_NO_BATCH},
    Phase.VALIDATION: {f"{_ACTOR}.ppo_micro_batch_size_per_gpu": _EVALUATED, **_NO_BATCH},
}
"""The actor's key -> that of the role which ran; None if the role does not read it."""
_NAMES = """
adam_beta1 adam_beta2 beta bf16 completion_only_loss dataloader_num_workers dataset_num_proc
dataset_text_field deepspeed epsilon eval_steps eval_strategy fp16 fsdp fsdp_config
generation_batch_size eval_dataset peft_config processing_class reward_funcs train_dataset
gradient_accumulation_steps gradient_checkpointing hub_model_id importance_sampling_level
learning_rate log_completions logging_steps loss_type lr_scheduler_type mask_truncated_completions
max_completion_length max_grad_norm max_length max_prompt_length max_steps min_p
num_generations num_iterations num_train_epochs optim output_dir packing padding_free
per_device_eval_batch_size per_device_train_batch_size report_to repetition_penalty
resume_from_checkpoint reward_weights run_name save_steps save_strategy save_total_limit
scale_rewards seed steps_per_generation temperature top_k top_p use_liger_kernel use_vllm
vllm_gpu_memory_utilization vllm_mode vllm_server_host vllm_server_port
vllm_tensor_parallel_size warmup_ratio warmup_steps weight_decay
"""
"""Arguments of TRL and the trainer of transformers that people set."""
_RENAMED = {"tokenizer": "processing_class", "max_seq_length": "max_length", "no_cuda": "use_cpu"}
"""Former arguments -> the present ones, where the names have nothing in common."""
_VERL_KEYS = (
    "actor_rollout_ref.",
    "algorithm.",
    "critic.",
    "data.",
    "ray_kwargs.",
    "trainer.",
    "reward.",
    "reward_model.",
)
_KEY_IN_TEXT = re.compile(
    r"\b(?:actor_rollout_ref|algorithm|critic|data|grubrics|guard|judge|model|ray_kwargs|reward"
    r"|trainer|training)\.[a-z]\w*(?:\.\w+)*"
)
_OUR_TOOLS = re.compile(r"\bgrubrics\b(?!-tui model fetch)|\bengine\.|of this project\b")


def for_phase(remedies: Iterable[Remedy], phase: Phase | None) -> list[Remedy]:
    """Return the fixes with the keys of the role that ran; without those that do nothing for it."""
    keys = _OF_PHASE.get(phase or "", {})
    moved = []
    for remedy in remedies:
        renamed = [(change, keys.get(change.key, change.key)) for change in remedy.changes]
        changes = tuple(replace(change, key=key) for change, key in renamed if key)
        if changes or not remedy.changes:
            moved.append(replace(remedy, changes=changes))
    return moved


def nearest_argument(name: str) -> str:
    """Return the argument of TRL or transformers whose name is the nearest; empty if none is."""
    if not name or name in _RENAMED:
        return _RENAMED.get(name, "")
    return next(iter(get_close_matches(name, _NAMES.split(), 1, 0.7)), "")


def full_key(key: str) -> str:
    """Return the key of the installed verl that ends in the last name of ``key``, if it is one."""
    from engine.recipe.keys import flatten  # Few logs name a key: start-up time.
    from engine.recipe.recipe import defaults_of

    end = "." + key.strip(".-`").rpartition(".")[2].replace("-", "_")
    keys = [known for known, _ in flatten(defaults_of(GRPO)) if known.endswith(end)]
    return keys[0] if key and len(keys) == 1 else ""


def framework_of(files: Sequence[Path], findings: Iterable[Finding] = ()) -> Framework:
    """Return the trainer that wrote the files, by their first and last bytes and the evidence."""
    if any(map(is_ours, files)):
        return Framework.OURS
    evidence = "\n".join(item.text for finding in findings for item in finding.evidence)
    texts = [*map(read_ends, dict.fromkeys(files)), evidence.encode(errors="replace")]
    for framework, marks in _MARKS.items():
        if any(marks.search(text) for text in texts):
            return framework
    return Framework.OTHER


def is_ours(path: Path) -> bool:
    """Return whether our trainer wrote the file: it is in a run, and the run has a config."""
    attempt, run = path.parent, RunDir(path.parent.parent)
    if not attempt.name.startswith("attempt_") or not run.manifest.is_file():
        return False
    return run.read_manifest("kind").get("kind") != COMMAND


def read_ends(path: Path) -> bytes:
    """Return the first and the last bytes of a file."""
    try:
        with files.open_regular(path) as file:
            head = file.read(_END)
            file.seek(max(len(head), path.stat().st_size - _END))
            return head + b"\n" + file.read(_END)
    except OSError:
        return b""


def in_terms_of(framework: Framework, findings: Iterable[Finding]) -> list[Finding]:
    """Return the findings with fixes that a user of the framework can apply."""
    if framework is Framework.OURS:
        return list(findings)
    return [_finding(framework, finding) for finding in findings]


def _finding(framework: Framework, finding: Finding) -> Finding:
    remedies: dict[str, Remedy] = {}
    for remedy in finding.remedies:
        if _names_foreign_key(framework, remedy) or _is_in_force(framework, remedy):
            continue
        if not _OUR_TOOLS.search(remedy.title) and not any(map(_is_our_command, remedy.changes)):
            # A fix for several kinds of runs appears once for each, under the same title.
            remedies.setdefault(remedy.title, _remedy(framework, remedy))
    consequences = tuple(_finding(framework, follower) for follower in finding.followed_by)
    return replace(finding, remedies=tuple(remedies.values()), followed_by=consequences)


def _is_in_force(framework: Framework, remedy: Remedy) -> bool:
    """Whether the framework does this by default, or has no such part."""
    if framework is Framework.HF and any(old.key == _SHARE for old in remedy.changes):
        return True
    return framework is not Framework.OTHER and remedy.title == CLIPPING


def _names_foreign_key(framework: Framework, remedy: Remedy) -> bool:
    """Whether the text names a key that the framework does not have."""
    keys = _KEY_IN_TEXT.findall(f"{remedy.title} {remedy.effect}")
    return any(framework is not Framework.VERL or not key.startswith(_VERL_KEYS) for key in keys)


def _remedy(framework: Framework, remedy: Remedy) -> Remedy:
    """Return the fix with the framework's arguments; relative ones are only named."""
    translated = [(old.key, _change(framework, old)) for old in remedy.changes]
    changes = [(key, new) for key, new in translated if new is not None]
    relative = [new.key for key, new in changes if key in _RELATIVE]
    named = relative or _arguments_named(framework, remedy)
    keys = {change.key for change in remedy.changes}
    return Remedy(
        ": ".join((remedy.title, *named)),
        tuple(new for key, new in changes if key not in _RELATIVE),
        _SMALLER.get(framework, remedy.effect) if _MICRO_BATCH in keys else remedy.effect,
    )


def _arguments_named(framework: Framework, remedy: Remedy) -> list[str]:
    """Return the argument for a fix without changes."""
    if remedy.changes:
        return []
    keys = [key for beginning, key in _KEY_OF_TITLE.items() if remedy.title.startswith(beginning)]
    if framework is Framework.VERL:  # The prefix depends on the trainer.
        return [key.removeprefix(f"{_ACTOR}.") for key in keys]
    arguments = _ARGUMENTS.get(framework, {})
    return [arguments[key][0] for key in keys if key in arguments]


def _change(framework: Framework, change: Change) -> Change | None:
    """Return the change with the framework's argument; None if it has none."""
    if change.kind != "config":
        return change
    if framework is Framework.VERL:
        return change if change.key.startswith(_VERL_KEYS) else None
    key, value = _ARGUMENTS.get(framework, {}).get(change.key, ("", None))
    return replace(change, key=key, after=change.after if value is None else value) if key else None


def _is_our_command(change: Change) -> bool:
    return change.kind == "command" and _OUR_TOOLS.search(str(change.after)) is not None
